// Hands out VNIs to owners, who may ask several programs at once, and keeps them in a folder:
//
//	node vnis.js FOLDER OWNER...
//
// A store needs two operations: get a value with a token, and put one if the token is unchanged. Here each version of
// the value is a file of its own, and its number the token: of two programs that make the same file, one fails.
import { link, readdir, readFile, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { load } from "rangekeeper";

class Folder {
  #path;

  constructor(path) {
    this.#path = path;
  }

  async get() {
    const versions = (await readdir(this.#path)).filter((name) => /^\d+$/.test(name)).map(Number);
    if (versions.length === 0) return undefined;
    const token = `${Math.max(...versions)}`;
    return { value: await readFile(join(this.#path, token)), token };
  }

  async put(value, token) {
    const next = `${Number(token ?? 0) + 1}`;
    const written = join(this.#path, `${next}.${process.pid}`);
    await writeFile(written, value);
    try {
      await link(written, join(this.#path, next)); // all of the file or nothing
      return next;
    } catch (error) {
      if (error.code === "EEXIST") return undefined;
      throw error;
    } finally {
      await unlink(written);
    }
  }
}

const [folder, ...owners] = process.argv.slice(2);
if (owners.length === 0) {
  console.error("usage: node vnis.js FOLDER OWNER...");
  process.exit(2);
}
const wasm = await readFile(new URL(import.meta.resolve("rangekeeper/rangekeeper.wasm")));
const rangekeeper = await load(wasm);
// Not 4789, which is easily taken for the UDP port of VXLAN.
const pool = { range: "4096-16777215", choice: "Lowest", exclude: ["4789"] };
const ledger = rangekeeper.sharedLedger(pool, new Folder(folder));
const all = await Promise.all(owners.map((owner) => ledger.allocate({}, owner)));
owners.forEach((owner, i) => console.log(`${owner} ${all[i].first}`));
