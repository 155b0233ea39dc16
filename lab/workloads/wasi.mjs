// Runs a WASI program in Node or Deno. Its one argument is JSON: program, arguments, names of variables of its own
// environment, and preopens from the path inside to that on the host.
import { readFile } from "node:fs/promises";
import { argv, env } from "node:process";
import { WASI } from "node:wasi";

const { program, arguments: words, variables, preopens } = JSON.parse(argv[2]);
const wasi = new WASI({
    version: "preview1",
    args: [program, ...words],
    env: Object.fromEntries(variables.map((name) => [name, env[name]])),
    preopens,
    returnOnExit: false,
});
const module = await WebAssembly.compile(await readFile(program));
wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
