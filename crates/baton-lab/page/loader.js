// Unpacks the style and the script of the page. The page's policy names both by their hashes.

const unpack = (id) => {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) =>
    c.charCodeAt(0),
  );
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
};

unpack("code")
  .json()
  .then(({ style, script }) => {
    document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
    document.body.append(Object.assign(document.createElement("script"), { textContent: script }));
  });
