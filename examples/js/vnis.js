// Hands out VNIs to owners, who may ask several programs at once, and keeps them in a folder:
//
//	node vnis.js FOLDER OWNER...
//
// A store needs two operations: get a value with a token, and put one if the token is unchanged. Here each version of
// the value is a file of its own, and its number the token: of two programs that make the same file, one fails.
import { randomUUID } from "node:crypto";
import { link, open, readdir, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";

import { load } from "rangekeeper";

class Folder {
  #path;
  #check;

  // check throws if a value is not one.
  constructor(path, check) {
    this.#path = path;
    this.#check = check;
  }

  async get() {
    const versions = (await readdir(this.#path)).filter((name) => /^\d+$/.test(name)).map(Number);
    if (versions.length === 0) return undefined;
    const token = `${Math.max(...versions)}`;
    const file = join(this.#path, token);
    const value = await readFile(file);
    try {
      if (value.length === 0) throw new Error("the file is empty"); // to the library that is a new ledger
      this.#check(value);
    } catch (error) {
      throw new Error(`${file}: ${error.message}`);
    }
    return { value, token };
  }

  async put(value, token) {
    const next = `${Number(token ?? 0) + 1}`;
    // A name that no other writer has. Threads share a pid, and so may programs of several containers.
    const name = join(this.#path, `${next}.${randomUUID()}`);
    const file = await open(name, "wx");
    try {
      await file.writeFile(value);
      await file.sync(); // else a power loss may leave the newest version empty
      await link(name, join(this.#path, next)); // all of the file or nothing
      await sync(this.#path);
      return next;
    } catch (error) {
      if (error.code === "EEXIST") return undefined;
      throw error;
    } finally {
      await unlink(name);
      await file.close();
    }
  }
}

// Flushes the names in a folder.
async function sync(path) {
  const folder = await open(path);
  try {
    await folder.sync();
  } finally {
    await folder.close();
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
const ledger = rangekeeper.sharedLedger(pool, new Folder(folder, (value) => rangekeeper.openLedger(pool, value)));
const all = await Promise.all(owners.map((owner) => ledger.allocate({}, owner)));
owners.forEach((owner, i) => console.log(`${owner} ${all[i].first}`));
