#![forbid(unsafe_code)]
//! Hands out the values of a range to owners. Several processes may do so at once, over SQLite or etcd.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper::ledger::{Change, Choice, Outcome, Pool, SharedLedger, Store, Want};
use rangekeeper_ledger_stores::etcd::EtcdKey;
use rangekeeper_ledger_stores::redb::RedbKey;
use rangekeeper_ledger_stores::sqlite::SqliteRow;

type AnyError = Box<dyn std::error::Error>;

#[derive(Parser)]
#[command(about, version)]
struct Arguments {
    /// Where the ledger is kept: sqlite:FILE, redb:FILE or the URL of an etcd
    #[arg(long)]
    store: String,
    /// The name of the ledger in the store; in etcd its key
    #[arg(long)]
    key: String,
    /// The values: LOW-HIGH, LOW-HIGH/BLOCK, CIDR or CIDR/PREFIX
    #[arg(long)]
    range: String,
    /// A part of the range that is never handed out; can be repeated
    #[arg(long)]
    exclude: Vec<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Gives each owner a value, or values in a row; an owner that has them gets them again
    Allocate {
        /// How many values in a row
        #[arg(long, default_value_t = 1)]
        run: u32,
        /// Names that are not used again, such as UIDs
        #[arg(required = true)]
        owner: Vec<String>,
    },
    /// Releases all that the owners have
    Release {
        /// Their names
        #[arg(required = true)]
        owner: Vec<String>,
    },
    /// Lists the values in use with their owners
    Show,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ledger-rs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, AnyError> {
    let Arguments { store, key, range, exclude, command } = arguments;
    let mut pool = Pool::new(range.parse()?, Choice::Lowest);
    for part in exclude {
        pool = pool.exclude(part)?;
    }
    match store.split_once(':') {
        Some(("sqlite", file)) => carry_out(&mut SqliteRow::open(&PathBuf::from(file), key)?, pool, key, command),
        Some(("redb", file)) => carry_out(&mut RedbKey::open(&PathBuf::from(file), key)?, pool, key, command),
        Some(("http", _)) => carry_out(&mut EtcdKey::connect(store, key)?, pool, key, command),
        _ => Err(format!("the store {store:?} is neither sqlite:FILE, redb:FILE nor http://HOST:PORT").into()),
    }
}

fn carry_out<S: Store<Error: std::error::Error>>(
    store: &mut S,
    pool: Pool,
    key: &str,
    command: &Command,
) -> Result<ExitCode, AnyError> {
    let mut out = stdout().lock();
    // Unknown to others, as both must be.
    let seed = || RandomState::new().build_hasher().finish();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed());
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut ledger = SharedLedger::new(pool, seed());
    let owners: &[String] = match command {
        Command::Allocate { run, owner } => {
            for owner in owner {
                ledger.submit(Change::Allocate { want: Want::Run(*run), owner: Some(owner.clone()) });
            }
            owner
        }
        Command::Release { owner } => {
            for owner in owner {
                ledger.submit(Change::ReleaseOwner { owner: owner.clone() });
            }
            owner
        }
        Command::Show => {
            ledger.submit(Change::Read);
            &[]
        }
    };
    ledger.run(store, clock, &mut rng).map_err(|error| format!("{key}: {error}"))?;
    if let (Command::Show, Some(known)) = (command, ledger.known()) {
        for value in known.iter() {
            writeln!(out, "{value}\t{}", known.owner_of(value).unwrap_or("-"))?;
        }
    }
    let mut code = ExitCode::SUCCESS;
    for (owner, (_, outcome)) in owners.iter().zip(ledger.take_outcomes()) {
        match outcome {
            Outcome::Allocated(allocation) => writeln!(out, "{owner}\t{}\t{}", allocation.first, allocation.len)?,
            Outcome::Released(released) => writeln!(out, "{owner}\t{} released", released.len())?,
            Outcome::NotAllocated(error) => {
                eprintln!("ledger-rs: {owner}: {error}");
                code = ExitCode::FAILURE;
            }
            outcome => return Err(format!("{owner}: {outcome:?}").into()),
        }
    }
    Ok(code)
}
