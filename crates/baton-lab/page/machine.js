// The machines: the lab in WebAssembly, a line of text in and JSON out.

async function startMachine() {
  const { instance } = await WebAssembly.instantiate(await unpack("wasm").arrayBuffer(), {});
  const { memory, request, call, answer } = instance.exports;
  const encoder = new TextEncoder(),
    decoder = new TextDecoder();
  return (line) => {
    const bytes = encoder.encode(line);
    const at = request(bytes.length);
    new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
    const length = call();
    return JSON.parse(decoder.decode(new Uint8Array(memory.buffer, answer(), length)));
  };
}
