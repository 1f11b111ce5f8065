/**
 * Ledgers for JavaScript: which values of a range are in use, and by whom. Values are texts: "4096" of a range of
 * integers, "1000010000/10000" of blocks of them, "10.96.0.10" of addresses, "10.0.3.16/28" of networks.
 */

/**
 * Compiles the library, rangekeeper.wasm beside this file, from its bytes or an answer of fetch. A host that compiles
 * modules by itself, such as Workers, passes the module.
 */
export function load(wasm: BufferSource | Response | PromiseLike<Response> | WebAssembly.Module): Promise<Rangekeeper>;

/** A range, and which of its values are handed out, in which order. */
export interface Pool {
  /**
   * Integers LOW-HIGH up to 2^64 - 1, blocks of integers LOW-HIGH/SIZE, the addresses of a CIDR, or the networks
   * CIDR/PREFIX of one.
   */
  range: string;
  /** The next value: the lowest free one, a random one, or the first free one after the last. */
  choice: "Lowest" | "Random" | "NextFit";
  /** Parts that are never handed out: LOW-HIGH, one integer, or of blocks FIRST/SIZE; of addresses FIRST-LAST, one address, or a CIDR. */
  exclude?: string[];
  /** Parts that are handed out by name only. */
  reserve?: string[];
  /** Parts that are handed out by name, or if no others are free. */
  staticBands?: string[];
  /** Values are out of use for some time after their release; with more than atMost releases, the oldest is over at once. */
  coolDown?: { timeMs: number; atMost: number };
}

/** What an allocation asks for: any free value, this one, values in a row, or 2^block values from a multiple of 2^block on. */
export type Want = { value: string } | { run: number } | { block: number } | Record<string, never>;

/** Values in a row that are in use. */
export interface Allocation {
  first: string;
  /** 1 at least. */
  len: number;
}

/** What is wrong with an owner or a value. */
export interface Finding {
  reason: "OwnerGone" | "OwnerUnknown" | "SeveralAllocations" | "NoOwner";
  owner?: string;
  value?: string;
  message: string;
}

/** How many values are in use, are out of use after their release, and are handed out at all. */
export interface Usage {
  used: bigint;
  cooling: bigint;
  size: bigint;
}

/** The name of a result of the C ABI without its prefix. */
export type Code =
  | "INVALID_ARGUMENT"
  | "FULL"
  | "ALREADY_ALLOCATED"
  | "NOT_IN_RANGE"
  | "MISMATCHED_RANGE"
  | "BITS_PAST_RANGE"
  | "INVALID_RANGE"
  | "OWNED"
  | "HAS_OTHER"
  | "INVALID_OBJECT"
  | "ENCRYPTED"
  | "REFUSED"
  | "UNANSWERED"
  | "INVALID_JSON"
  | "POISONED";

/** Why a call was refused. Of POISONED, a fault of the library: the ledger cannot be used any more. */
export class LedgerError extends Error {
  readonly code: Code;
}

/** What put of a Store throws if the value is larger than the store allows. */
export class TooLargeError extends Error {}

/** A store of one value, such as a row of a database, an object with an ETag, or a key of Durable Objects. */
export interface Store {
  /**
   * The value and its token; undefined if there is no value. A token differs for each write, also of the same value. An
   * empty value is refused: somebody has emptied it.
   */
  get(): Promise<{ value: Uint8Array; token: string } | undefined>;
  /**
   * Puts a value if the token of the stored one is this; undefined if there must be none. Returns the new token, or
   * undefined if the stored value has another one. After a TooLargeError nothing was put, and after another exception
   * the value may have been put, or may be later. A client that sends a request again by itself is refused by its own
   * write: turn that off, or find out, or throw.
   */
  put(value: Uint8Array, token: string | undefined): Promise<string | undefined>;
}

export interface Rangekeeper {
  /** A ledger in memory: what encode() returned, or one in which nothing is in use. Throws a LedgerError. */
  openLedger(pool: Pool, stored?: Uint8Array): Ledger;
  /** A ledger in a store that several programs may write. It asks nothing yet. Throws a LedgerError. */
  sharedLedger(pool: Pool, store: Store): SharedLedger;
}

/** What a ledger in memory and a copy of a stored one answer. All methods throw a LedgerError. */
export interface Ledger {
  /** Allocates what is wanted, for an owner or, without one, for nobody. An owner that has it gets it again. */
  allocate(want?: Want, owner?: string): Allocation;
  /** Releases a value that has no owner. Returns whether it was in use. */
  release(value: string): boolean;
  /** Releases all that an owner has, and returns it. */
  releaseOwner(owner: string): Allocation[];
  /** Whether a value is in use, and its owner if it has one. */
  ownerOf(value: string): { inUse: boolean; owner?: string };
  /** What an owner has: one allocation, unless another program stored more. */
  ownedBy(owner: string): Allocation[];
  usage(): Usage;
  /** Compares the owners with those that exist. Pass the counts of the last audit, and release the owners that are due. */
  audit(
    owners: string[],
    passes: number,
    counts?: Record<string, number>,
  ): { findings: Finding[]; due: string[]; counts: Record<string, number> };
  /** The bytes to store: a RangeAllocation of Kubernetes. */
  encode(): Uint8Array;
}

/**
 * A ledger in a store. Calls that are made while the store is asked become one write. If the store throws, so do all
 * calls that wait: an owner repeats its call. The name of an owner must not be used again: take a UID.
 */
export interface SharedLedger {
  allocate(want?: Want, owner?: string): Promise<Allocation>;
  release(value: string): Promise<boolean>;
  /** Writes also if the owner has nothing: no write of another program that was on its way gives it something then. */
  releaseOwner(owner: string): Promise<Allocation[]>;
  /** A copy of what is stored now. */
  read(): Promise<Ledger>;
}
