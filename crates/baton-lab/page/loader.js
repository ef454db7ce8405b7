// Unpacks the style and the script of the page. The page's policy names both by their hashes.

const unpack = (id) => {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) =>
    c.charCodeAt(0),
  );
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
};

// Shows why the page cannot continue.
const fail = (why) =>
  Object.assign(document.getElementById("failure"), { hidden: false, textContent: why });

addEventListener("error", ({ message }) =>
  fail(`The lab has stopped: ${message}. Reload the page.`),
);
addEventListener("unhandledrejection", ({ reason }) =>
  fail(`The lab cannot start: ${reason}. Use another browser.`),
);

const missing = ["WebAssembly", "DecompressionStream"].find((name) => !(name in window));
if (missing) fail(`The lab cannot start: this browser has no ${missing}. Use a newer one.`);
else
  unpack("code")
    .json()
    .then(({ style, script }) => {
      document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
      document.body.append(
        Object.assign(document.createElement("script"), { textContent: script }),
      );
    });
