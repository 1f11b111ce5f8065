//! Runs axum-rs and asks it and `rangekeeper audit`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use etcd_rs::etcd::Etcd;
use etcd_rs::kv::{Kv, Txn, Write as Change};
use serde_json::{Value, json};
use sqlite_rs::Sqlite;

pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Where the replicas of a test keep everything, apart from those of other tests.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) prefix: String,
    /// Without it, the etcd at ETCDCTL_ENDPOINTS.
    file: Option<PathBuf>,
    /// The way of replicas to that etcd.
    pub(crate) proxy: Option<String>,
    pub(crate) ips: &'static str,
    pub(crate) ports: &'static str,
}

impl Place {
    pub(crate) fn etcd(test: &str, ips: &'static str, ports: &'static str) -> Self {
        Self { prefix: format!("/{test}-{}", std::process::id()), file: None, proxy: None, ips, ports }
    }

    pub(crate) fn sqlite(test: &str, ips: &'static str, ports: &'static str) -> Self {
        // Two runs at once have files of their own, and each removes those of runs that have ended.
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let has_ended = |name: &str| {
            let (process, _) = name.strip_prefix(test)?.strip_prefix('-')?.split_once(".db")?;
            Some(!PathBuf::from("/proc").join(process).exists())
        };
        for old in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if has_ended(&old.file_name().to_string_lossy()) == Some(true) {
                let _ = std::fs::remove_file(old.path()); // its error is that another run has removed it
            }
        }
        let file = dir.join(format!("{test}-{}.db", std::process::id()));
        Self { prefix: "/registry".to_owned(), file: Some(file), proxy: None, ips, ports }
    }

    /// The ranges of most tests: two families.
    pub(crate) const IPS: &'static str = "10.96.0.0/20,fd00:10:96::/112";

    pub(crate) fn endpoint() -> String {
        let endpoint = std::env::var("ETCDCTL_ENDPOINTS").expect("run.sh starts an etcd");
        format!("http://{}", endpoint.trim_start_matches("http://"))
    }

    /// The store itself, while no replica has it if it is a file.
    pub(crate) async fn kv(&self) -> Arc<dyn Kv> {
        match &self.file {
            Some(file) => Arc::new(Sqlite::open(file).expect("no replica runs")),
            None => Arc::new(Etcd::connect(&Self::endpoint()).await.expect("etcd runs")),
        }
    }

    /// Puts or deletes a key behind the back of the replicas.
    pub(crate) fn write(&self, change: Change) {
        block_on(async {
            let answer = self.kv().await.txn(Txn { then: vec![change], ..Txn::default() }).await;
            assert!(answer.expect("the store answers").held);
        });
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_axum-rs"));
        match &self.file {
            Some(file) => command.arg("--sqlite").arg(file),
            None => command.args(["--etcd-servers", &self.proxy.clone().unwrap_or_else(Self::endpoint)]),
        };
        command.args(["--listen", "127.0.0.1:0", "--repair-interval", "1", "--etcd-prefix", &self.prefix]);
        command.args(["--service-cluster-ip-range", self.ips, "--service-node-port-range", self.ports]);
        command
    }

    pub(crate) fn start(&self) -> Replica {
        let mut left = if self.proxy.is_some() { 50 } else { 1 };
        loop {
            let mut process = self.command().stdout(Stdio::piped()).spawn().expect("it was built");
            let mut url = String::new();
            let stdout = process.stdout.take().expect("a pipe");
            BufReader::new(stdout).read_line(&mut url).expect("it ends its output");
            let address = url.trim().trim_start_matches("http://").to_owned();
            let mut replica = Replica { process, address };
            if !url.is_empty() {
                return replica;
            }
            // Its first pass has failed, and it is started again.
            left -= 1;
            assert!(left > 0, "it has ended: {:?}", replica.process.wait());
        }
    }

    /// Runs a replica that must not come to serve, and returns its error.
    pub(crate) fn refused(&self) -> String {
        let piped = self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut replica = Replica { process: piped.expect("it was built"), address: String::new() };
        let (mut url, mut error) = (String::new(), String::new());
        // It ends, or prints where it listens.
        let stdout = replica.process.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut url).expect("it ends its output");
        assert_eq!(url, "", "it serves");
        replica.process.stderr.take().expect("a pipe").read_to_string(&mut error).expect("it ends its output");
        assert_eq!(replica.process.wait().expect("it ends").code(), Some(2), "{error}");
        error
    }

    /// The exit code and output of `rangekeeper audit`.
    pub(crate) fn audit(&self) -> (Option<i32>, String) {
        let program = std::env::var("RANGEKEEPER").expect("run.sh names the program");
        let mut command = Command::new(program);
        command.args(["audit", "--warn-free", "0%", "--prefix", &self.prefix]);
        match &self.file {
            Some(file) => command.arg("--sqlite").arg(file),
            None => command.args(["--endpoints", &Self::endpoint()]),
        };
        let output = command.output().expect("it was built");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    }

    /// Checks that the audit finds nothing.
    pub(crate) fn is_clean(&self) {
        let (code, output) = self.audit();
        assert_eq!(code, Some(0), "{output}");
    }

    /// Waits until the audit finds nothing: after some repair passes. Meanwhile there may be leaks, but no doubles.
    pub(crate) fn becomes_clean(&self) {
        let started = Instant::now();
        loop {
            let (code, output) = self.audit();
            if code == Some(0) {
                return;
            }
            assert!(!output.contains("AlreadyAllocated"), "{output}");
            assert!(started.elapsed() < Duration::from_secs(300), "exit code {code:?}: {output}");
            sleep(Duration::from_millis(500));
        }
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

/// A process of axum-rs, which is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Replica {
    process: Child,
    pub(crate) address: String,
}

impl Drop for Replica {
    fn drop(&mut self) {
        // SIGKILL. Its errors are that it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a request. The error is that no whole answer came.
pub(crate) fn request(address: &str, method: &str, path: &str, body: &Value) -> Result<(u16, Value), AnyError> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(300)))?;
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    )?;
    stream.write_all(body.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer ends in its head")?;
    let code = head.split(' ').nth(1).ok_or("there is no status")?.parse()?;
    Ok((code, serde_json::from_str(body)?))
}

pub(crate) const SERVICES: &str = "/api/v1/namespaces/default/services";

impl Replica {
    /// Ends it by SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Creates a Service, again after a repair pass that came between.
    pub(crate) fn create(&self, name: &str, spec: &Value) -> (u16, Value) {
        let service = json!({ "metadata": { "name": name }, "spec": spec });
        loop {
            let (code, answer) = request(&self.address, "POST", SERVICES, &service).expect("an answer");
            if code != 503 {
                return (code, answer);
            }
        }
    }

    pub(crate) fn delete(&self, name: &str) -> u16 {
        request(&self.address, "DELETE", &format!("{SERVICES}/{name}"), &Value::Null).expect("an answer").0
    }

    /// All Services.
    pub(crate) fn list(&self) -> Vec<Value> {
        let (code, mut list) = request(&self.address, "GET", "/api/v1/services", &Value::Null).expect("an answer");
        assert_eq!(code, 200, "{list}");
        let Value::Array(items) = list["items"].take() else { panic!("{list}") };
        items
    }

    /// All values of all Services, each of which one Service has.
    pub(crate) fn values(&self) -> Vec<String> {
        let services = self.list();
        let mut all: Vec<_> = services.iter().flat_map(values).collect();
        all.sort();
        let doubles: Vec<_> = all.windows(2).filter(|two| two[0] == two[1]).collect();
        assert!(doubles.is_empty(), "{doubles:?}");
        all
    }
}

/// The addresses and node ports of a Service.
pub(crate) fn values(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let addresses = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut ports: Vec<_> =
        spec["ports"].as_array().into_iter().flatten().filter_map(|port| port["nodePort"].as_u64()).collect();
    ports.sort_unstable();
    ports.dedup();
    let addresses =
        addresses.filter(|text| *text != "None").map(|text| text.parse::<IpAddr>().expect("an address").to_string());
    addresses.chain(ports.iter().map(u64::to_string)).collect()
}

/// A NodePort Service with addresses of both families.
pub(crate) fn dual_stack() -> Value {
    json!({ "type": "NodePort", "ipFamilyPolicy": "RequireDualStack", "ports": [{ "port": 80 }] })
}
