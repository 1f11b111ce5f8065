//! The store beside a naive model of etcd: a map, and a counter of revisions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use etcd_rs::kv::{Change, Condition, Field, Kv, Op, Stored, Txn, Write};
use rangekeeper::commit::KeyState;
use sqlite_rs::Sqlite;

type AnyError = Box<dyn std::error::Error>;

/// The folder of a test, of this process alone. The test removes it at its end.
fn folder(test: &str) -> Result<PathBuf, AnyError> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kv-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn one(write: Write) -> Txn {
    Txn { then: vec![write], ..Txn::default() }
}

fn states(stored: Vec<Stored>) -> BTreeMap<String, (KeyState, Vec<u8>)> {
    stored.into_iter().map(|stored| (stored.key, (stored.state, stored.value))).collect()
}

#[tokio::test]
async fn keys_have_the_revisions_of_etcd_also_once_old_ones_are_compacted() -> Result<(), AnyError> {
    let folder = folder("compacted")?;
    let file = folder.join("store.db");
    let store = Sqlite::open(&file)?;
    let (header, _) = store.list("/".to_owned(), None).await?;
    let (first, mut revision) = (header.revision, header.revision);
    let mut model: BTreeMap<String, (KeyState, Vec<u8>)> = BTreeMap::new();
    let mut past = BTreeMap::new();
    // One key is written all the time, one now and then, and one also deleted.
    for n in 0..3200_u64 {
        let key = match n % 50 {
            7 => "/a/seldom",
            9 | 31 => "/a/comes-and-goes",
            _ => "/a/always",
        };
        revision += 1;
        if n % 50 == 31 {
            let answer = store.txn(one(Write::Delete(key.to_owned()))).await?;
            assert!(answer.held && answer.header.revision == revision, "{n}: {answer:?}");
            assert!(model.remove(key).is_some());
        } else {
            let value = n.to_string().into_bytes();
            let answer = store.txn(one(Write::Put(key.to_owned(), value.clone()))).await?;
            assert!(answer.held && answer.header.revision == revision, "{n}: {answer:?}");
            let (state, stored) = model.entry(key.to_owned()).or_default();
            let create_revision = if state.version == 0 { revision } else { state.create_revision };
            *state = KeyState { mod_revision: revision, version: state.version + 1, create_revision };
            *stored = value;
        }
        if n == 3100 {
            past = model.clone();
        }
        if n % 500 == 0 {
            assert_eq!(states(store.list("/a/".to_owned(), None).await?.1), model, "{n}");
        }
    }
    assert_eq!(states(store.list("/a/".to_owned(), None).await?.1), model);
    assert_eq!(states(store.list("/a/".to_owned(), Some(first + 3101)).await?.1), past);
    assert_eq!(states(store.list("/a/seldom".to_owned(), None).await?.1).len(), 1, "a key, not a prefix");
    assert!(store.list("/a/al".to_owned(), None).await?.1.is_empty());

    let mut changes = store.watch("/a/always".to_owned(), revision - 500);
    let mut version = None;
    let mut seen = 0;
    while let Some(Change::Put(stored)) = changes.recv().await {
        assert!(version.is_none_or(|version| stored.state.version == version + 1), "{stored:?} after {version:?}");
        version = Some(stored.state.version);
        seen += 1;
        if stored.state == model["/a/always"].0 {
            break;
        }
    }
    assert!(seen > 400, "{seen} changes");
    store.txn(one(Write::Put("/a/always".to_owned(), b"last".to_vec()))).await?;
    assert!(matches!(changes.recv().await, Some(Change::Put(stored)) if stored.value == b"last"));
    let mut compacted = store.watch("/a/always".to_owned(), first + 1);
    assert!(compacted.recv().await.is_none(), "a watch from a compacted revision fails");
    assert!(store.list("/a/".to_owned(), Some(first)).await.is_err(), "a list at a compacted revision fails");
    drop((changes, compacted, store));

    let rows: u32 = rusqlite::Connection::open(file)?.query_row("SELECT COUNT(*) FROM kine", [], |row| row.get(0))?;
    assert!(rows < 2100, "{rows} rows are left of 3200");
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

#[tokio::test]
async fn a_transaction_does_all_or_nothing() -> Result<(), AnyError> {
    let folder = folder("transactions")?;
    let file = folder.join("store.db");
    let store = Sqlite::open(&file)?;
    let condition = |key: &str, field, op, number| Condition::new(key, field, op, number);
    let put = |when: Vec<Condition>, value: &str| {
        let then = vec![
            Write::Put("/a/x".to_owned(), value.into()),
            Write::Mark { key: "/a/x/witness".to_owned(), temporary: false },
        ];
        Txn { when, then, or_read: Some("/a/x".to_owned()), over: None }
    };
    let created = store.txn(put(vec![condition("/a/x", Field::Version, Op::Equal, 0)], "1")).await?;
    assert!(created.held);
    let again = store.txn(put(vec![condition("/a/x", Field::Version, Op::Equal, 0)], "2")).await?;
    assert!(!again.held && again.header.revision == created.header.revision);
    assert_eq!(again.found.map(|found| found.value), Some(b"1".to_vec()));
    let r = created.header.revision;
    for (field, op, number, holds) in [
        (Field::ModRevision, Op::Equal, r, true),
        (Field::ModRevision, Op::Less, r, false),
        (Field::CreateRevision, Op::Less, r + 1, true),
        (Field::CreateRevision, Op::Greater, r, false),
        (Field::Version, Op::Greater, 0, true),
    ] {
        for key in ["/a/x", "/a/x/witness"] {
            let answer = store.txn(Txn { when: vec![condition(key, field, op, number)], ..Txn::default() }).await?;
            assert_eq!(answer.held, holds, "{key} {field:?} {op:?} {number}");
        }
    }
    let two = vec![Write::Put("/a/y".to_owned(), vec![1]), Write::Put("/a/z".to_owned(), vec![1])];
    assert!(store.txn(Txn { then: two, ..Txn::default() }).await.is_err(), "they cannot have one revision");
    assert_eq!(store.list("/a/".to_owned(), None).await?.1.len(), 1, "marks are not listed");
    store.txn(one(Write::Delete("/a/x/witness".to_owned()))).await?;
    let gone = Txn { when: vec![condition("/a/x/witness", Field::Version, Op::Greater, 0)], ..Txn::default() };
    assert!(!store.txn(gone).await?.held);
    drop(store);
    let (header, stored) = Sqlite::open(&file)?.list("/a/x".to_owned(), None).await?;
    assert_eq!((header.revision, stored[0].state.mod_revision), (r, r));
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
