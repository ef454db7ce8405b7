// The machines: the lab in WebAssembly, a line of text in and JSON out.

async function startMachine() {
  const packed = Uint8Array.from(atob(document.getElementById("wasm").textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { instance } = await WebAssembly.instantiate(await new Response(unpacked).arrayBuffer(), {});
  const { memory, request, call, answer } = instance.exports;
  const encoder = new TextEncoder(), decoder = new TextDecoder();
  return (line) => {
    const bytes = encoder.encode(line);
    const at = request(bytes.length);
    new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
    const length = call();
    return JSON.parse(decoder.decode(new Uint8Array(memory.buffer, answer(), length)));
  };
}
