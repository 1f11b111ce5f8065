// Ledgers for JavaScript, over the C ABI of the library as WebAssembly; include/rangekeeper.h documents its functions,
// and rangekeeper.d.ts what is exported here. Each ledger has an instance of its own, which is collected with it.

// Numbers of the C ABI.
const OK = 0;
const BUFFER_TOO_SMALL = 2;
const NOT_ENDED = 59;
const CHANGE = { any: 1601, value: 1602, run: 1603, block: 1604, release: 1605, releaseOwner: 1606, read: 1607 };
const REQUEST = { none: 1701, get: 1702, create: 1703, replace: 1704, wait: 1705 };
const ANSWER = { none: 1801, got: 1802, missing: 1803, put: 1804, changed: 1805, tooLarge: 1806 };
const CODES = {
  3: "INVALID_ARGUMENT",
  16: "FULL",
  17: "ALREADY_ALLOCATED",
  18: "NOT_IN_RANGE",
  19: "MISMATCHED_RANGE",
  20: "BITS_PAST_RANGE",
  21: "INVALID_RANGE",
  23: "OWNED",
  24: "HAS_OTHER",
  32: "INVALID_OBJECT",
  33: "ENCRYPTED",
  49: "REFUSED",
  58: "UNANSWERED",
  64: "INVALID_JSON",
};

// Sizes and offsets of structs in a memory of 32 bits.
const VALUE_SIZE = 32;
const ALLOCATION_SIZE = 40;
const CHANGE_SIZE = 40;
const REQUEST_SIZE = 24;
const USAGE_SIZE = 40;
const ERROR_SIZE = 560;
const ERROR_MESSAGE = 44;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export class LedgerError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "LedgerError";
    this.code = code;
  }
}

export class TooLargeError extends Error {}

export async function load(wasm) {
  const module = await compile(wasm);
  const library = () => new Library(new WebAssembly.Instance(module, {}));
  const openLedger = (pool, stored = new Uint8Array()) => {
    const lib = library();
    return new Ledger(lib, lib.create("rk_ledger_new", pool, stored));
  };
  return {
    openLedger,
    sharedLedger: (pool, store) => new SharedLedger(library(), pool, store, (stored) => openLedger(pool, stored)),
  };
}

async function compile(wasm) {
  if (wasm instanceof WebAssembly.Module) return wasm;
  const answer = await wasm;
  if (typeof Response !== "undefined" && answer instanceof Response) return WebAssembly.compileStreaming(answer);
  return WebAssembly.compile(answer);
}

// An instance of the library. Arguments live in its memory for the duration of a call.
class Library {
  #c;
  #poisoned;

  constructor(instance) {
    this.#c = instance.exports;
    this.#c.rk_memory_keep_faults();
  }

  // Makes one call. work gets an Arguments and returns what the call returns.
  call(work) {
    if (this.#poisoned) throw new LedgerError("POISONED", this.#poisoned);
    const stack = this.#c.__stack_pointer.value;
    const args = new Arguments(this.#c);
    try {
      return work(args, this.#c);
    } catch (fault) {
      if (!(fault instanceof WebAssembly.RuntimeError)) throw fault;
      this.#c.__stack_pointer.value = stack;
      this.#poisoned = `the library has caught a fault in itself, please report it: ${this.#fault() || fault}`;
      throw new LedgerError("POISONED", this.#poisoned);
    } finally {
      if (!this.#poisoned) args.free();
    }
  }

  // What the last panic has said.
  #fault() {
    const args = new Arguments(this.#c);
    const length = args.block(4);
    const at = this.#c.rk_memory_fault(length);
    return args.text(at, args.u32(length));
  }

  // Creates a handle of a pool.
  create(name, pool, stored) {
    return this.call((args, c) => {
      const parts = [...args.put(encoder.encode(JSON.stringify(pool)))];
      if (stored) parts.push(...args.put(stored));
      const [handle, error] = [args.block(4), args.block(ERROR_SIZE)];
      args.check(c[name](...parts, seed(), handle, error), error);
      return args.u32(handle);
    });
  }
}

// Others must not know it.
function seed() {
  return crypto.getRandomValues(new BigUint64Array(1))[0];
}

// Blocks in the memory of the library, which are freed together.
class Arguments {
  #c;
  #blocks = [];

  constructor(c) {
    this.#c = c;
  }

  // A view of the memory, which is another one after it has grown.
  get #view() {
    return new DataView(this.#c.memory.buffer);
  }

  // The place of memory with the content of earlier calls.
  block(size) {
    const at = this.#c.rk_memory_allocate(Math.max(size, 1)) >>> 0;
    if (at === 0) throw new RangeError(`the library has no memory for ${size} bytes`);
    this.#blocks.push([at, Math.max(size, 1)]);
    return at;
  }

  free() {
    for (const [at, size] of this.#blocks) this.#c.rk_memory_free(at, size);
  }

  // Copies bytes, and returns their place and number.
  put(bytes) {
    const at = this.block(bytes.length);
    new Uint8Array(this.#c.memory.buffer, at, bytes.length).set(bytes);
    return [at, bytes.length];
  }

  u32(at) {
    return this.#view.getUint32(at, true);
  }

  u64(at) {
    return this.#view.getBigUint64(at, true);
  }

  setU32(at, number) {
    this.#view.setUint32(at, number, true);
  }

  bytes(at, length) {
    return new Uint8Array(this.#c.memory.buffer.slice(at, at + length));
  }

  text(at, length) {
    return decoder.decode(this.bytes(at, length));
  }

  // Throws the error of a call that has failed.
  check(result, error) {
    if (result === OK) return;
    throw new LedgerError(CODES[result] ?? `RESULT_${result}`, this.text(error + ERROR_MESSAGE, this.u32(error + ERROR_MESSAGE - 4)));
  }

  // Calls read with a capacity and a place for the length until there is room, and returns place and length.
  read(itemSize, capacity, read) {
    const length = this.block(4);
    for (;;) {
      const at = this.block(itemSize * capacity);
      const result = read(at, capacity, length);
      if (result !== BUFFER_TOO_SMALL) return [result, at, this.u32(length)];
      capacity = this.u32(length);
    }
  }

  allocations(at, n) {
    return Array.from({ length: n }, (_, i) => {
      const first = at + i * ALLOCATION_SIZE;
      return { first: this.valueText(first), len: this.u32(first + VALUE_SIZE) };
    });
  }

  valueText(value) {
    const [, at, length] = this.read(1, 64, (...buffer) => this.#c.rk_ledger_value_text(value, ...buffer));
    return this.text(at, length);
  }

  // A change of this kind, with a value that is in memory.
  change(kind, n = 0, value) {
    const at = this.block(CHANGE_SIZE);
    if (value !== undefined) new Uint8Array(this.#c.memory.buffer).copyWithin(at, value, value + VALUE_SIZE);
    this.setU32(at + VALUE_SIZE, kind);
    this.setU32(at + VALUE_SIZE + 4, n);
    return at;
  }

  // Reads a value of the ledger's range, and returns its place.
  parse(ledger, text) {
    const [value, error] = [this.block(VALUE_SIZE), this.block(ERROR_SIZE)];
    this.check(this.#c.rk_ledger_parse_value(ledger, ...this.put(encoder.encode(text)), value, error), error);
    return value;
  }

  // The bytes of a ledger to store.
  encoded(ledger) {
    const [, at, length] = this.read(1, 1024, (...buffer) => this.#c.rk_ledger_encode(ledger, ...buffer));
    return this.bytes(at, length);
  }

  // The change that allocates what is wanted.
  wanted(ledger, want) {
    if (want.value !== undefined) return this.change(CHANGE.value, 0, this.parse(ledger, want.value));
    if (want.run !== undefined) return this.change(CHANGE.run, count(want.run));
    if (want.block !== undefined) return this.change(CHANGE.block, count(want.block));
    return this.change(CHANGE.any);
  }
}

function count(n) {
  if (!Number.isInteger(n) || n < 0 || n > 0xffffffff) throw new LedgerError("INVALID_ARGUMENT", `${n} is not a number of values`);
  return n;
}

// Two texts that are not well formed would become the same bytes.
function ownerBytes(owner) {
  const bytes = encoder.encode(owner);
  if (decoder.decode(bytes) !== owner) throw new LedgerError("INVALID_ARGUMENT", `the owner ${JSON.stringify(owner)} is not well formed`);
  return bytes;
}

function tokenOf(token) {
  if (typeof token !== "string") throw new TypeError(`the store's token is ${token}, not a string`);
  return token;
}

function now() {
  return BigInt(Date.now()) * 1_000_000n;
}

class Ledger {
  #lib;
  #handle;

  constructor(lib, handle) {
    this.#lib = lib;
    this.#handle = handle;
  }

  allocate(want = {}, owner = "") {
    return this.#apply((args) => args.wanted(this.#handle, want), owner)[0];
  }

  release(value) {
    return this.#apply((args) => args.change(CHANGE.release, 0, args.parse(this.#handle, value)), "").length > 0;
  }

  releaseOwner(owner) {
    return this.#apply((args) => args.change(CHANGE.releaseOwner), owner);
  }

  ownerOf(value) {
    return this.#lib.call((args, c) => {
      const [parsed, inUse, error] = [args.parse(this.#handle, value), args.block(1), args.block(ERROR_SIZE)];
      const [result, at, length] = args.read(1, 64, (...buffer) => c.rk_ledger_owner_of(this.#handle, parsed, inUse, ...buffer, error));
      args.check(result, error);
      const owner = length > 0 ? { owner: args.text(at, length) } : {};
      return { inUse: args.bytes(inUse, 1)[0] !== 0, ...owner };
    });
  }

  ownedBy(owner) {
    return this.#lib.call((args, c) => {
      const name = args.put(ownerBytes(owner));
      const [, at, n] = args.read(ALLOCATION_SIZE, 1, (...buffer) => c.rk_ledger_owned_by(this.#handle, ...name, ...buffer));
      return args.allocations(at, n);
    });
  }

  usage() {
    return this.#lib.call((args, c) => {
      const at = args.block(USAGE_SIZE);
      c.rk_ledger_count(this.#handle, at);
      return { used: args.u64(at), cooling: args.u64(at + 8), size: args.u64(at + 16) };
    });
  }

  audit(owners, passes, counts = {}) {
    return this.#lib.call((args, c) => {
      const question = args.put(encoder.encode(JSON.stringify({ owners, passes, counts })));
      const error = args.block(ERROR_SIZE);
      const [result, at, length] = args.read(1, 1024, (...buffer) => c.rk_ledger_audit(this.#handle, ...question, ...buffer, error));
      args.check(result, error);
      return JSON.parse(args.text(at, length));
    });
  }

  encode() {
    return this.#lib.call((args) => args.encoded(this.#handle));
  }

  // change writes the change.
  #apply(change, owner) {
    return this.#lib.call((args, c) => {
      const [made, name, error] = [change(args), args.put(ownerBytes(owner)), args.block(ERROR_SIZE)];
      const [result, at, n] = args.read(ALLOCATION_SIZE, 1, (...buffer) => c.rk_ledger_apply(this.#handle, made, ...name, now(), ...buffer, error));
      args.check(result, error);
      return args.allocations(at, n);
    });
  }
}

class SharedLedger {
  #lib;
  #handle;
  // An empty ledger of the same pool, which reads values.
  #reader;
  #store;
  #open;
  // The calls that wait, by their tickets.
  #waiting = new Map();
  #isRunning = false;

  constructor(lib, pool, store, open) {
    this.#lib = lib;
    this.#handle = lib.create("rk_shared_ledger_new", pool);
    this.#reader = lib.create("rk_ledger_new", pool, new Uint8Array());
    this.#store = store;
    this.#open = open;
  }

  async allocate(want = {}, owner = "") {
    return (await this.#change((args) => args.wanted(this.#reader, want), owner))[0];
  }

  async release(value) {
    const released = await this.#change((args) => args.change(CHANGE.release, 0, args.parse(this.#reader, value)), "");
    return released.length > 0;
  }

  async releaseOwner(owner) {
    return this.#change((args) => args.change(CHANGE.releaseOwner), owner);
  }

  async read() {
    return this.#open(await this.#change((args) => args.change(CHANGE.read), "", () => this.#known()));
  }

  // The bytes of what is stored, as far as is known.
  #known() {
    return this.#lib.call((args, c) => {
      const known = args.block(4);
      c.rk_shared_ledger_known(this.#handle, known);
      const ledger = args.u32(known);
      const bytes = args.encoded(ledger);
      c.rk_ledger_free(ledger);
      return bytes;
    });
  }

  // Submits a change, and waits for its outcome. change writes it, and result is called when it has ended.
  #change(change, owner, result = (outcome) => outcome) {
    const ticket = this.#lib.call((args, c) => {
      const [made, name, ticket, error] = [change(args), args.put(ownerBytes(owner)), args.block(8), args.block(ERROR_SIZE)];
      args.check(c.rk_shared_ledger_submit(this.#handle, made, ...name, ticket, error), error);
      return args.u64(ticket);
    });
    return new Promise((resolve, reject) => {
      this.#waiting.set(ticket, { result, resolve, reject });
      if (!this.#isRunning) {
        this.#isRunning = true;
        // Calls that are made one after the other become one write.
        queueMicrotask(() => this.#run());
      }
    });
  }

  // Asks the store until there is nothing to ask. If it throws, so do all calls that wait.
  async #run() {
    do {
      try {
        const request = this.#poll();
        this.#deliver(); // what needs no write
        if (request.kind === REQUEST.none) break;
        await this.#ask(request);
        this.#deliver();
      } catch (error) {
        this.#fail(error);
      }
    } while (this.#waiting.size > 0);
    this.#isRunning = false;
  }

  // Lets no request be under way, and ends all calls that wait.
  #fail(error) {
    try {
      this.#answered(ANSWER.none);
      this.#deliver(); // of changes that leave no trace the outcome is unknown
      for (const ticket of this.#waiting.keys()) this.#cancel(ticket);
    } catch {
      // The library has caught a fault in itself: all later calls say so.
    }
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #poll() {
    return this.#lib.call((args, c) => {
      const at = args.block(REQUEST_SIZE);
      c.rk_shared_ledger_poll(this.#handle, now(), at);
      const [value, token] = [args.u32(at + 8), args.u32(at + 12)];
      const request = { kind: args.u32(at + 16), until: args.u64(at) };
      if (request.kind === REQUEST.create || request.kind === REQUEST.replace) {
        const [atValue, atToken] = [args.block(value), args.block(token)];
        c.rk_shared_ledger_put(this.#handle, atValue, value, atToken, token);
        request.value = args.bytes(atValue, value);
        if (request.kind === REQUEST.replace) request.token = args.text(atToken, token);
      }
      return request;
    });
  }

  async #ask({ kind, until, value, token }) {
    if (kind === REQUEST.wait) {
      await new Promise((resolve) => setTimeout(resolve, Number((until - now()) / 1_000_000n) + 1));
      return;
    }
    let answer;
    try {
      answer = await (kind === REQUEST.get ? this.#store.get() : this.#store.put(value, token));
    } catch (error) {
      if (kind === REQUEST.get || !(error instanceof TooLargeError)) throw error;
      this.#answered(ANSWER.tooLarge);
      return;
    }
    // Many clients say null for nothing.
    if (kind !== REQUEST.get) {
      if (answer == null) this.#answered(ANSWER.changed);
      else this.#answered(ANSWER.put, undefined, tokenOf(answer));
    } else if (answer == null) {
      this.#answered(ANSWER.missing);
    } else if (answer.value?.length === 0) {
      // A new ledger in place of one that somebody has emptied would give all its values again.
      throw new Error("the stored ledger is empty: put it back, or delete what is stored to begin with a new one");
    } else {
      this.#answered(ANSWER.got, answer.value, tokenOf(answer.token));
    }
  }

  #answered(answer, value = new Uint8Array(), token = "") {
    this.#lib.call((args, c) => {
      const [bytes, text, error] = [args.put(value), args.put(encoder.encode(token)), args.block(ERROR_SIZE)];
      args.check(c.rk_shared_ledger_answered(this.#handle, answer, now(), ...bytes, ...text, error), error);
    });
  }

  // Ends the calls whose changes have ended.
  #deliver() {
    for (const [ticket, { result, resolve, reject }] of this.#waiting) {
      try {
        const outcome = this.#outcome(ticket);
        if (outcome === undefined) continue;
        resolve(result(outcome));
      } catch (error) {
        reject(error);
      }
      this.#waiting.delete(ticket);
    }
  }

  #outcome(ticket) {
    return this.#lib.call((args, c) => {
      const error = args.block(ERROR_SIZE);
      const [result, at, n] = args.read(ALLOCATION_SIZE, 1, (...buffer) => c.rk_shared_ledger_outcome(this.#handle, ticket, ...buffer, error));
      if (result === NOT_ENDED) return undefined;
      args.check(result, error);
      return args.allocations(at, n);
    });
  }

  #cancel(ticket) {
    this.#lib.call((_, c) => c.rk_shared_ledger_cancel(this.#handle, ticket));
  }
}
