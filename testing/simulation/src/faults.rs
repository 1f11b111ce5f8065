//! Faults of the shells around committers, which the simulation plays and has to find. Those of the protocol itself are
//! patches, in `testing/simulation/faults`.

use std::cell::Cell;

/// By their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ShellFault {
    /// A pass that is repeated after a conflict counts.
    RetriesCount = 20,
    /// The counters of leaks that were due stay where their clearing was dropped, or its outcome is not known.
    CountersSurviveUnknownClears = 21,
    /// Leaks are cleaned in the first pass that sees them.
    NoGrace = 22,
    /// Services are listed before the read.
    ListedBeforeRead = 23,
    /// Services come from a cache that lags behind.
    StaleList = 24,
    /// Clears depend on Services since the last answer instead of since their list.
    ServicesGuardedLate = 47,
    /// A release names the newest revision that the committer has seen; if that frees nothing, a release as of a read
    /// follows.
    ReleasedAsOfNow = 52,
    /// A rollback names the revision of a read instead of the allocation's.
    RolledBackAsOfNow = 53,
    /// The second of two ports that share a value releases it as of a read.
    SharedReleasedTwice = 54,
    /// An update that lost a conflict releases the values that it would have dropped.
    LosingUpdateReleases = 55,
    /// A write of a Service with an unknown outcome releases values as if it had been written.
    UnknownWriteReleases = 56,
    /// An update releases the values that it drops before it writes the Service.
    ReleasedBeforeWrite = 58,
    /// A deletion that finds the Service deleted already releases its values as of a read.
    NotFoundReleasesAsOfNow = 59,
    /// An update releases the values that it drops as of the state before it, and does so after a failed write, too.
    FailedUpdateReleases = 60,
    /// The second of two servers that release the values of one Service does so as of a read.
    SecondServerReleasesAsOfNow = 85,
    /// The write of a Service has no conditions.
    ConditionsIgnored = 90,
    /// That write does not depend on the witness being no older than the allocation.
    RollbackNoCondition = 92,
    /// That write does not depend on the create revision of the witness: no fence came between.
    FenceNoCondition = 93,
    /// The list of a watch cache is passed as one of the store.
    CachedListPassedAsAt = 94,
    /// The compare-and-swap that creates a range puts the witness instead of deleting it.
    CreationNoFence = 95,
    /// A request that holds values of two ranges rolls one of them back only.
    HalfRolledBack = 87,
    /// A request that holds values of two ranges rolls both back as of the allocation in the first.
    RolledBackAsOfTheFirst = 88,
    /// An update that gives the values of one range back releases those of the other, too.
    BothRangesReleased = 89,
    /// The list of a watch cache counts as one of the store if it has the keys and mod revisions that are there.
    ListProvenByRevisions = 103,
    /// Over a store with tokens: the token is a hash of the value.
    TokenIsAHash = 110,
    /// Over a store with tokens: a second server releases the values, too, as of a read after the deletion.
    ReleasedAsOfALaterRead = 111,
    /// Over a store with tokens: a put that was refused is repeated with the token that is there.
    PutAgain = 115,
    /// Over a store with tokens: a Service is written after the `use_until` of its values.
    WrittenAfterUseUntil = 112,
    /// Over a store with tokens: the grace and the interval of some servers are shorter than those of others.
    ShorterGrace = 116,
    /// Over a store with tokens: a pass that fails takes what was counted with it.
    FailedPassForgets = 117,
    /// Over a ledger: a store says "changed" for a put that its client has sent again after it was carried out.
    ChangedByItself = 120,
}

/// A fault of a shell.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its number.
    pub number: u8,
    /// The fault without which rules hide this one; 0 for none. It may be a patch.
    pub with: u8,
    /// What the shell does.
    pub name: &'static str,
}

/// All of them.
pub const ROWS: &[Row] = &[
    Row { number: 20, with: 0, name: "counter advances on each conflict retry" },
    Row { number: 21, with: 31, name: "counter survives a dropped or unknown clear" },
    Row { number: 22, with: 0, name: "no grace" },
    Row { number: 23, with: 22, name: "Services listed before the read" },
    Row { number: 24, with: 0, name: "stale cached list" },
    Row { number: 47, with: 0, name: "clears depend on Services since the last answer instead of the list" },
    Row { number: 52, with: 0, name: "release as of what is known, and then as of a read" },
    Row { number: 53, with: 0, name: "rollback without the allocation's revision" },
    Row { number: 54, with: 0, name: "port shared by TCP and UDP released a second time, as of a read" },
    Row { number: 55, with: 0, name: "update that lost a conflict releases what it would have dropped" },
    Row { number: 56, with: 0, name: "release after a write with an unknown outcome" },
    Row { number: 58, with: 0, name: "update releases before it writes the Service" },
    Row { number: 59, with: 0, name: "release of a Service that was deleted already, as of a read" },
    Row { number: 60, with: 0, name: "update that was rejected releases what it would have dropped" },
    Row { number: 85, with: 0, name: "release by a second server, as of a read" },
    Row { number: 87, with: 0, name: "request that holds values of two ranges rolls one of them back only" },
    Row { number: 88, with: 0, name: "values of two ranges rolled back as of the allocation in the first" },
    Row {
        number: 89,
        with: 0,
        name: "update that gives the values of one range back releases those of the other, too",
    },
    Row { number: 90, with: 0, name: "write of a Service without conditions" },
    Row { number: 92, with: 0, name: "write of a Service does not depend on the revision of the witness" },
    Row { number: 93, with: 0, name: "write of a Service does not depend on the create revision of the witness" },
    Row { number: 94, with: 0, name: "list of a watch cache passed as one of the store" },
    Row { number: 95, with: 0, name: "compare-and-swap that creates a range is no fence" },
    Row { number: 103, with: 0, name: "list of a watch cache proven by the keys and revisions in the store" },
    Row { number: 110, with: 0, name: "tokens: the token is a hash of the value" },
    Row { number: 111, with: 0, name: "tokens: release by a second server, as of a read after the deletion" },
    Row { number: 112, with: 0, name: "tokens: Service written after its use_until" },
    Row { number: 115, with: 0, name: "tokens: refused put repeated with the token that is there" },
    Row { number: 116, with: 0, name: "tokens: server with a shorter grace than others" },
    Row { number: 117, with: 0, name: "tokens: failed pass forgets what was counted" },
    Row { number: 120, with: 0, name: "ledger: put that was sent again is refused by itself" },
];

thread_local! {
    static ON: Cell<u128> = const { Cell::new(0) };
}

/// Puts faults on, in this thread: bit n is the fault of number n.
pub fn set(faults: u128) {
    ON.set(faults);
}

impl ShellFault {
    /// Whether it is on.
    pub(crate) fn is_on(self) -> bool {
        ON.get() >> self as u8 & 1 == 1
    }
}
