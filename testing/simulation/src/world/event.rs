//! What can happen in a schedule.

use rangekeeper::commit::{StoreRequest, Ticket};

use crate::server::{Job, Release};
use crate::store::{Look, Mask, Reply};

/// How the write of a Service ends for the server that tries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// The server rejects it before anything is written: a webhook, a quota.
    Rejected,
    /// There is no answer: its outcome is unknown.
    Unknown {
        is_written: bool,
    },
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) server: usize,
    pub(super) incarnation: u32,
    pub(super) id: u32,
    pub(super) epoch: u32,
    pub(super) request: StoreRequest,
    /// The only operation that may set something, if there is only one.
    pub(super) sole: Option<Ticket>,
    /// Whether no operation is open that may set something.
    pub(super) is_idle: bool,
    /// Whether it may be that of a repair pass.
    pub(super) repairs: bool,
    /// Whether it may be that of somebody who creates the range.
    pub(super) creates: bool,
    /// The revision of the last answer that the server had.
    pub(super) reported: u64,
    /// That of the last one that reported the key, if it was missing.
    pub(super) reported_key: u64,
    /// The newest revision that an answer or a watch had reported to it.
    pub(super) reached: u64,
    /// When it was sent, and what the server's clock showed then.
    pub(super) at: (u64, u64),
    /// The server could know all changes after this revision.
    pub(super) known_since: u64,
    /// And has seen nothing older, with a gap in between.
    pub(super) is_whole: bool,
    /// What a repair pass may clear that has listed Services in the store, and the revision of its look.
    pub(super) leaks: (Mask, u64),
    /// What edits may clear, and which of it without regard to its history.
    pub(super) by_hand: Mask,
    pub(super) without_history: Mask,
    /// What the server's last pass had seen with more than one Service.
    pub(super) duplicates: Mask,
    /// Whether the server knew then of which store it was.
    pub(super) is_aware: bool,
    /// How long the answer takes, if there will be one.
    pub(super) then: Option<u64>,
}

#[derive(Debug)]
pub(super) enum Event {
    Poll(usize),
    Apply(Box<Sent>),
    Reply {
        server: usize,
        incarnation: u32,
        id: u32,
        epoch: u32,
        /// The newest revision that the server knew of when it sent the request.
        reached: u64,
        reply: Reply,
    },
    GiveUp {
        server: usize,
        incarnation: u32,
        id: u32,
    },
    Submit(usize),
    Cancel {
        server: usize,
        incarnation: u32,
        ticket: Ticket,
    },
    /// A client's request about the Service of this uid.
    Client(u32, Wish),
    /// The request of this number writes its Service.
    Write(usize),
    /// That write reaches the store.
    Arrive {
        request: usize,
        epoch: u32,
        fate: Fate,
    },
    Release {
        server: usize,
        incarnation: u32,
        release: Release,
    },
    Pass(usize),
    /// The write of a pass's fence reaches the store.
    Fence {
        server: usize,
        incarnation: u32,
        epoch: u32,
        is_answered: bool,
    },
    /// It is answered, with this look.
    Fenced {
        server: usize,
        incarnation: u32,
        look: Look,
    },
    List {
        server: usize,
        incarnation: u32,
    },
    /// An operator begins to change values by hand.
    Operate(usize),
    /// The operator lists Services again, after a dry run.
    ListAgain {
        server: usize,
        incarnation: u32,
        job: Box<Job>,
    },
    /// The operator has listed Services, and makes the change.
    Edit {
        server: usize,
        incarnation: u32,
        job: Box<Job>,
    },
    Crash(usize),
    Start(usize),
    Disconnect(usize),
    /// A server's machine pauses for so long.
    Pause(usize, u64),
    /// It goes on after so long.
    Resume(usize, u64),
    Watch {
        server: usize,
        stream: u32,
    },
    Compact,
    /// Somebody creates the range if it is missing.
    Make,
    Delete,
    Recreate,
    Spoil,
    Backup,
    /// Somebody writes another key of the store.
    Other,
    /// A server reads what is stored.
    Look(usize),
    Restore,
    Stock(Stock),
    Calm,
    Finale(u8),
    Check,
}

/// What a client wants of a Service.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    /// Other values.
    Update,
    /// Another status.
    Touch,
    Delete,
    /// Two clients remove the last finalizer at the same time.
    RemoveFinalizers,
}

/// A step of the stock kube-apiserver. Each reads the key, and writes it a while later if it has not changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stock {
    Repair {
        tries: u8,
    },
    WriteRepaired {
        version: u64,
        mask: Mask,
        tries: u8,
    },
    Pick {
        tries: u8,
    },
    Take {
        version: u64,
        offset: u32,
        tries: u8,
    },
    Free {
        offset: u32,
        tries: u8,
    },
    WriteFreed {
        version: u64,
        offset: u32,
        tries: u8,
    },
    /// It handles a client's request about some Service.
    Serve,
    /// It writes the Service of this request.
    Write(usize),
}
