//! Clients create and delete Services while replicas are killed: each value has one Service, no Service is lost, and
//! leaks go. `rangekeeper audit` judges what is stored.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::replica::{Place, SERVICES, block_on, dual_stack, request, values};
use etcd_rs::store::Store;
use rangekeeper::allocator::Request;
use rangekeeper::commit::{Config, Replace};
use rangekeeper::{PortRange, Strategy};
use serde_json::{Value, json};

const CLIENTS: usize = 8;
/// How many Services each client creates. It deletes every third.
const SERVICES_EACH: usize = 40;
/// How often a replica is killed, or the connections are cut.
const BREAKS: usize = 4;

#[test]
#[ignore = "needs an etcd at ETCDCTL_ENDPOINTS and the program RANGEKEEPER, which run.sh has"]
fn two_replicas_over_etcd() {
    let place = Place::etcd("two-replicas", Place::IPS, "30000-31000");
    play(&place, 2, None);
}

#[test]
#[ignore = "needs an etcd at ETCDCTL_ENDPOINTS and the program RANGEKEEPER, which run.sh has"]
fn two_replicas_whose_connections_to_etcd_break() {
    let mut place = Place::etcd("broken-connections", Place::IPS, "30000-31000");
    let (proxy, connections) = proxy().expect("loopback has a port");
    place.proxy = Some(proxy);
    play(&place, 2, Some(&connections));
}

/// The connections of a proxy.
pub(crate) type Connections = Arc<Mutex<Vec<TcpStream>>>;

/// A way to etcd, and its connections.
pub(crate) fn proxy() -> std::io::Result<(String, Connections)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let streams = Connections::default();
    let open = Arc::clone(&streams);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let address = Place::endpoint();
            let Ok(etcd) = TcpStream::connect(address.trim_start_matches("http://")) else { continue };
            for (from, to) in [(&client, &etcd), (&etcd, &client)] {
                let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { continue };
                thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
            open.lock().expect("no panic").push(client);
        }
    });
    Ok((endpoint, streams))
}

/// Cuts all connections, with requests under way: the answer to what etcd has is lost. Returns how many were open.
pub(crate) fn cut(connections: &Connections) -> usize {
    let mut connections = connections.lock().expect("no panic");
    connections.drain(..).filter(|stream| stream.shutdown(Shutdown::Both).is_ok()).count()
}

#[test]
#[ignore = "needs the program RANGEKEEPER, which run.sh has"]
fn one_replica_over_sqlite() {
    let place = Place::sqlite("one-replica", Place::IPS, "30000-31000");
    play(&place, 1, None);
}

#[test]
fn a_second_replica_over_sqlite_is_refused() {
    let place = Place::sqlite("second-replica", "10.96.0.0/24", "30000-30010");
    let first = place.start();
    let refused = place.refused();
    assert!(refused.contains("another process has locked"), "{refused}");
    drop(first);
    place.start();
}

/// Lets clients work, while replicas are killed and started again, or these connections break.
fn play(place: &Place, count: usize, connections: Option<&Connections>) {
    // They start at once, and each makes its first repair pass where there is no range yet.
    let starting: Vec<_> = (0..count)
        .map(|_| {
            thread::spawn({
                let place = place.clone();
                move || place.start()
            })
        })
        .collect();
    let replicas: Vec<_> = starting.into_iter().map(|start| Mutex::new(start.join().expect("it starts"))).collect();
    let stored = Mutex::new(BTreeSet::new());
    let (broken, created, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let address = |of: usize| replicas[of % count].lock().expect("no panic").address.clone();

    // Repeats a request, by turns to each replica, until an answer says what has become of it.
    let settle = |client: usize, method: &str, path: &str, body: &Value| {
        for attempt in client..client + 600 {
            match request(&address(attempt), method, path, body) {
                Ok((500 | 503 | 504, _)) => _ = broken.fetch_add(1, Ordering::Relaxed),
                Ok((code, answer)) => return (code, answer),
                Err(_) => _ = broken.fetch_add(1, Ordering::Relaxed),
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("{method} {path}: no answer");
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (settle, stored, created) = (&settle, &stored, &created);
                scope.spawn(move || {
                    for number in 0..SERVICES_EACH {
                        let name = format!("of-{client}-{number}");
                        let service = json!({ "metadata": { "name": name }, "spec": dual_stack() });
                        let (code, answer) = settle(client + number, "POST", SERVICES, &service);
                        // After a lost answer it may be there already.
                        assert!(code == 201 || code == 409, "{code} {answer}");
                        created.fetch_add(1, Ordering::Relaxed);
                        if number % 3 == 0 {
                            let (code, answer) = settle(client, "DELETE", &format!("{SERVICES}/{name}"), &Value::Null);
                            assert!(code == 200 || code == 404, "{code} {answer}");
                        } else {
                            stored.lock().expect("no panic").insert(name);
                        }
                    }
                })
            })
            .collect();
        let breaker = || {
            let mut breaks = 0;
            for of in (0..count).cycle() {
                // Most requests of the clients are under way here.
                let before = created.load(Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed)
                    && created.load(Ordering::Relaxed) < before + CLIENTS * SERVICES_EACH / (BREAKS + 1)
                {
                    thread::sleep(Duration::from_millis(5));
                }
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                if let Some(connections) = connections {
                    breaks += cut(connections);
                    continue;
                }
                let mut replica = replicas[of].lock().expect("no panic");
                replica.kill();
                *replica = place.start();
                breaks += 1;
            }
            assert!(breaks >= BREAKS - 1, "{breaks} show little");
        };
        scope.spawn(breaker);
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "a client has met a wrong answer");
    });

    let replica = replicas[0].lock().expect("no panic");
    let stored = stored.into_inner().expect("no panic");
    let listed: BTreeSet<_> =
        replica.list().iter().filter_map(|service| Some(service["metadata"]["name"].as_str()?.to_owned())).collect();
    assert_eq!(listed, stored);
    assert!(stored.len() >= CLIENTS * SERVICES_EACH / 2, "{} Services show little", stored.len());
    assert!(broken.load(Ordering::Relaxed) > 0, "no request was under way when a replica or a connection was broken");
    assert!(replica.list().iter().all(|service| values(service).len() == 3));
    assert_eq!(replica.values().len(), 3 * stored.len());
    place.becomes_clean();
    drop(replica);

    // A crash between allocation and write leaves this, for sure.
    drop(replicas);
    leak(place);
    let (code, output) = place.audit();
    assert!(code == Some(1) && output.contains("0 findings, 1 leak"), "exit code {code:?}: {output}");
    let replica = place.start();
    place.becomes_clean();
    assert_eq!(replica.values().len(), 3 * stored.len());
}

#[test]
#[ignore = "needs the program RANGEKEEPER, which run.sh has"]
fn what_a_client_asks_for_before_it_goes_away_is_done() {
    let place = Place::sqlite("gone-client", Place::IPS, "30000-31000");
    let replica = place.start();
    for number in 0..20 {
        let body = json!({ "metadata": { "name": format!("of-{number}") }, "spec": dual_stack() }).to_string();
        let mut stream = TcpStream::connect(&replica.address).expect("it listens");
        write!(stream, "POST {SERVICES} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            .expect("it reads");
        stream.shutdown(Shutdown::Both).expect("it was open");
    }
    // A request that was not read whole is not begun. One of ours takes as long as theirs, however busy the machine is.
    let mut settled = replica.list().len();
    for turn in 0.. {
        thread::sleep(Duration::from_millis(500));
        let ours = format!("ours-{turn}");
        assert_eq!((replica.create(&ours, &dual_stack()).0, replica.delete(&ours)), (201, 200));
        match replica.list().len() {
            now if now == settled && (now >= 10 || turn > 100) => break,
            now => settled = now,
        }
    }
    assert!(settled >= 10, "{settled} Services show little");
    place.is_clean();
}

/// Allocates a node port for nobody.
fn leak(place: &Place) {
    let config = Config { strategy: Strategy::RandomScan, grace: Duration::from_secs(60), replace: Replace::IfUnused };
    let range: PortRange = place.ports.parse().expect("a range");
    let key = format!("{}/ranges/servicenodeports", place.prefix);
    block_on(async {
        let (store, _) = Store::open(place.kv().await, &key, range, config, Duration::from_secs(10));
        let allocation = store.allocate(vec![Request::Any]).await.expect("there are free ones");
        assert_eq!(allocation.values.len(), 1);
    });
}
