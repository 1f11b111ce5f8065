// Run by `make test-js`: node --test.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { LedgerError, TooLargeError, load } from "./rangekeeper.js";

const root = new URL("../../", import.meta.url);
const wasm = await readFile(new URL("target/wasm/wasm32-unknown-unknown/release/ledger.wasm", root));
const { openLedger, sharedLedger } = await load(wasm);
const vnis = { range: "4096-16777215", choice: "Lowest", exclude: ["4097"] };

const refused = (code, says) => (error) =>
  error instanceof LedgerError && error.code === code && error.message.includes(says);

test("a ledger agrees with a map", async () => {
  const pool = { range: "10.0.0.0/22/28", choice: "Random" };
  const ledger = openLedger(pool);
  const model = new Map();
  let [given, full] = [0, 0];
  for (let step = 0; step < 5000; step++) {
    const owner = `owner ${Math.floor(Math.random() * 200)}`;
    const has = [...model].filter(([, by]) => by === owner).map(([value]) => value);
    if (Math.random() < 0.75) {
      try {
        const { first, len } = ledger.allocate({}, owner);
        assert.equal(len, 1);
        if (has.length > 0) assert.deepEqual([first], has);
        else assert.equal(model.get(first), undefined);
        model.set(first, owner);
        given++;
      } catch (error) {
        assert.ok(refused("FULL", pool.range)(error), error);
        assert.equal(model.size, 64);
        full++;
      }
    } else {
      assert.deepEqual(ledger.releaseOwner(owner).map(({ first }) => first), has);
      for (const value of has) model.delete(value);
    }
    for (const value of ["10.0.0.0/28", "10.0.3.240/28"]) {
      const expected = model.has(value) ? { inUse: true, owner: model.get(value) } : { inUse: false };
      assert.deepEqual(ledger.ownerOf(value), expected);
    }
  }
  assert.ok(given > 1000 && full > 0, `${given} given, ${full} times full`);
  const again = openLedger(pool, ledger.encode());
  assert.deepEqual(again.usage(), { used: BigInt(model.size), cooling: 0n, size: 64n });
  for (const [value, owner] of model) assert.deepEqual(again.ownedBy(owner), [{ first: value, len: 1 }]);
});

test("runs, blocks, values and refusals", () => {
  const ledger = openLedger(vnis);
  assert.deepEqual(ledger.allocate({ value: "5000" }), { first: "5000", len: 1 });
  assert.deepEqual(ledger.allocate({ run: 3 }, "a"), { first: "4098", len: 3 });
  assert.deepEqual(ledger.allocate({ block: 4 }, "b"), { first: "4112", len: 16 });
  assert.deepEqual(ledger.allocate(), { first: "4096", len: 1 });
  assert.throws(() => ledger.allocate({}, "a"), refused("HAS_OTHER", "4098"));
  assert.throws(() => ledger.allocate({ value: "4099" }), refused("ALREADY_ALLOCATED", "a"));
  assert.throws(() => ledger.allocate({ value: "4097" }), refused("NOT_IN_RANGE", "excluded"));
  assert.throws(() => ledger.allocate({ run: -1 }), refused("INVALID_ARGUMENT", "-1"));
  assert.throws(() => ledger.allocate({ block: 32 }), refused("INVALID_ARGUMENT", ""));
  assert.throws(() => ledger.release("4098"), refused("OWNED", "a"));
  assert.throws(() => ledger.release("red"), refused("INVALID_ARGUMENT", "red"));
  assert.equal(ledger.release("5000"), true);
  assert.equal(ledger.release("5000"), false);
  assert.throws(() => ledger.allocate({}, "x".repeat(1025)), refused("INVALID_ARGUMENT", "1025"));
  assert.throws(() => openLedger({ ...vnis, choice: "First" }), refused("INVALID_JSON", "First"));
  assert.throws(() => openLedger({ ...vnis, range: "9-1" }), refused("INVALID_RANGE", "9-1"));
  assert.throws(() => openLedger(vnis, new Uint8Array(9)), refused("INVALID_OBJECT", ""));
  assert.throws(() => openLedger({ ...vnis, range: "1-9", exclude: [] }, ledger.encode()), refused("MISMATCHED_RANGE", "1-9"));
  let counts;
  for (const expected of [[], [], ["a"]]) {
    const audit = ledger.audit(["b", "c"], 3, counts);
    assert.deepEqual(audit.due, expected);
    assert.deepEqual(audit.findings.map(({ reason, owner }) => [reason, owner]), [
      ["OwnerGone", "a"],
      ["OwnerUnknown", "c"],
      ["NoOwner", undefined],
    ]);
    counts = audit.counts;
  }
});

// A store that loses requests and answers.
class Row {
  version = 0;
  requests = 0;

  constructor(lose) {
    this.lose = lose;
  }

  async get() {
    this.requests++;
    await null;
    return this.version > 0 ? { value: this.value, token: `${this.version}` } : undefined;
  }

  async put(value, token) {
    this.requests++;
    await null;
    const before = this.version > 0 ? `${this.version}` : undefined;
    const lost = Math.random() < this.lose;
    if (lost && Math.random() < 0.5) throw new Error("the request is lost");
    if (token !== before) return undefined;
    [this.value, this.version] = [value, this.version + 1];
    if (lost) throw new Error("the answer is lost");
    return `${this.version}`;
  }
}

test("several programs share a store", async () => {
  const store = new Row(0);
  const programs = [1, 2, 3].map(() => sharedLedger(vnis, store));
  const asked = Array.from({ length: 90 }, (_, i) => programs[i % 3].allocate({}, `owner ${i}`));
  const values = (await Promise.all(asked)).map(({ first }) => first);
  assert.equal(new Set(values).size, 90);
  assert.ok(store.version < 30, `${store.version} writes`);
  await assert.rejects(programs[0].release(values[1]), refused("OWNED", "owner 1"));
  assert.deepEqual(await programs[1].releaseOwner("owner 1"), [{ first: values[1], len: 1 }]);
  const { first } = await programs[2].allocate({ value: values[1] });
  assert.equal(await programs[0].release(first), true);
  const known = await programs[0].read();
  assert.equal(known.usage().used, 89n);
  assert.deepEqual(known.ownerOf(values[7]), { inUse: true, owner: "owner 7" });
});

test("an owner that repeats its call gets one value", async () => {
  const store = new Row(0.4);
  const ledger = sharedLedger(vnis, store);
  let lost = 0;
  const values = [];
  for (let i = 0; i < 60; i++) {
    for (;;) {
      try {
        values.push((await ledger.allocate({}, `owner ${i}`)).first);
        break;
      } catch (error) {
        assert.match(error.message, /^the (request|answer) is lost$/);
        lost++;
      }
    }
  }
  assert.equal(new Set(values).size, 60);
  assert.ok(lost > 5, `${lost} answers were lost`);
  store.lose = 0;
  const known = await ledger.read();
  assert.equal(known.usage().used, 60n);
  values.forEach((value, i) => assert.equal(known.ownerOf(value).owner, `owner ${i}`));
});

test("a store that answers what it should not", async () => {
  const store = new Row(0);
  const ledger = sharedLedger(vnis, store);
  const answers = { get: store.get, put: store.put };
  store.get = async () => null; // as good as undefined
  assert.equal((await ledger.allocate({}, "a")).first, "4096");
  store.get = answers.get;
  store.put = async () => null; // not stored
  setTimeout(() => (store.put = answers.put), 20);
  assert.equal((await ledger.allocate({}, "b")).first, "4098");
  for (const bad of [7, {}]) {
    store.put = async () => bad;
    await assert.rejects(ledger.allocate({}, "c"), /token/);
    store.put = answers.put;
  }
  store.version++; // written by somebody else
  store.get = async () => ({ value: store.value });
  await assert.rejects(ledger.allocate({}, "d"), /token/);
  store.get = async () => ({ token: "1" });
  await assert.rejects(ledger.allocate({}, "d"));
  store.get = async () => ({ value: new Uint8Array(), token: "1" });
  await assert.rejects(sharedLedger(vnis, store).allocate({}, "d"), /is empty/); // also one that has read no other
  store.get = answers.get;
  assert.equal((await ledger.allocate({}, "a")).first, "4096");
  await assert.rejects(ledger.allocate({}, "\ud800"), refused("INVALID_ARGUMENT", "well formed"));
  assert.equal((await ledger.read()).usage().used, 2n);
});

test("a change that is too large refuses no others", async () => {
  const store = new Row(0);
  const ledger = sharedLedger(vnis, store);
  await ledger.allocate({}, "a");
  const [most, put] = [store.value.length + 100, store.put];
  store.put = async (value, token) => {
    if (value.length > most) throw new TooLargeError("no more than that");
    return put.call(store, value, token);
  };
  const [b, large, released] = await Promise.allSettled([ledger.allocate({}, "b"), ledger.allocate({}, "x".repeat(200)), ledger.releaseOwner("a")]);
  assert.equal(b.value.first, "4098");
  assert.ok(refused("REFUSED", "larger than the store allows")(large.reason));
  assert.deepEqual(released.value, [{ first: "4096", len: 1 }]);
  assert.equal((await ledger.read()).usage().used, 1n);
});

test("reads end beside writers", async () => {
  const ledger = sharedLedger(vnis, new Row(0));
  let [on, reads] = [true, 0];
  const writer = async (owner) => {
    while (on) {
      await ledger.allocate({}, owner);
      await ledger.releaseOwner(owner);
    }
  };
  const writers = [writer("a"), writer("b")];
  for (; reads < 30; reads++) assert.ok((await ledger.read()).usage().used <= 2n);
  on = false;
  await Promise.all(writers);
});

test("numbers and names are those of the header", async () => {
  const [header, source, types] = await Promise.all([
    readFile(new URL("include/rangekeeper.h", root), "utf8"),
    readFile(new URL("rangekeeper.js", import.meta.url), "utf8"),
    readFile(new URL("rangekeeper.d.ts", import.meta.url), "utf8"),
  ]);
  const codes = [...source.matchAll(/^  (\d+): "([A-Z_]+)",$/gm)];
  assert.ok(codes.length > 10);
  for (const [, number, name] of codes) {
    assert.match(header, new RegExp(`RK_RESULT_${name} = ${number},`));
    assert.ok(types.includes(`"${name}"`), name);
  }
  const { version } = JSON.parse(await readFile(new URL("package.json", import.meta.url), "utf8"));
  const cargo = await readFile(new URL("Cargo.toml", root), "utf8");
  assert.ok(cargo.includes(`version = "${version}"`), version);
});
