package etcdtest

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const (
	memberRole = "etcd-member"
	// startTimeout bounds what takes a second or two on a machine that has nothing else to do.
	startTimeout = 3 * time.Minute
	// statusTimeout is how long a member may take to say who leads. One that is paused never says it.
	statusTimeout = 500 * time.Millisecond
)

// Cluster is a real etcd, each member in a process of its own with a data directory of
// its own, on fixed ports of 127.0.0.1. Writes are synced to disk and the history is
// kept. It ends with the test.
type Cluster struct {
	t       testing.TB
	members []*member
	status  *clientv3.Client
}

type member struct {
	dir, endpoint, peer string
	// peers are the names and peer URLs of all members.
	peers   string
	process *Process
}

// StartCluster starts an etcd of so many members and waits until all of them serve.
func StartCluster(t testing.TB, size int) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	dir := t.TempDir()
	peers := make([]string, size)
	urls := make([]string, size)
	for i := range size {
		urls[i] = fmt.Sprintf("http://127.0.0.1:%d", ReservePort(t))
		peers[i] = memberName(i) + "=" + urls[i]
	}
	for i := range size {
		c.members = append(c.members, &member{
			dir: filepath.Join(dir, memberName(i)), endpoint: fmt.Sprintf("http://127.0.0.1:%d", ReservePort(t)),
			peer: urls[i], peers: strings.Join(peers, ","),
		})
		c.start(i)
	}
	for i := range size {
		c.awaitReady(i)
	}
	c.status = c.Client()
	return c
}

func memberName(i int) string { return "m" + strconv.Itoa(i) }

// Endpoints are the URLs of the members, in their order.
func (c *Cluster) Endpoints() []string {
	var endpoints []string
	for _, m := range c.members {
		endpoints = append(endpoints, m.endpoint)
	}
	return endpoints
}

// Client makes a client of all members; it ends with the test.
func (c *Cluster) Client() *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { client.Close() })
	return client
}

// Leader waits until some member knows that it leads, and returns its index.
func (c *Cluster) Leader() int {
	c.t.Helper()
	patience := statusTimeout
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		// One that was paused believes for a while that it still leads: the highest term is right.
		leader, highest, isLate := -1, uint64(0), false
		for i, m := range c.members {
			ctx, cancel := context.WithTimeout(c.t.Context(), patience)
			s, err := c.status.Status(ctx, m.endpoint)
			isLate = isLate || ctx.Err() != nil
			cancel()
			if err == nil && s.Leader == s.Header.MemberId && s.RaftTerm > highest {
				leader, highest = i, s.RaftTerm
			}
		}
		if leader >= 0 {
			return leader
		}
		if isLate { // a busy machine needs more
			patience *= 2
		}
	}
	c.t.Fatal("the etcd cluster has no leader")
	return -1
}

// Kill ends a member by SIGKILL.
func (c *Cluster) Kill(i int) { c.members[i].process.Kill() }

// Restart starts a killed member again, on its directory, and waits until it serves.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.start(i)
	c.awaitReady(i)
}

// Restoration says how [Cluster.Restore] restores a backup.
type Restoration struct {
	// Token is the new cluster's token; empty for that of the old one, which gives it the old one's id, too.
	Token string
	// Bump lets revisions go on so many above the backup's, what lies below compacted; 0 for from the backup's on.
	Bump uint64
}

// Restore kills all members and starts others in their place, on the same URLs, that
// have what a snapshot file holds, as `etcdutl snapshot restore` gives it to each. In
// between, with no member running, it calls meanwhile.
func (c *Cluster) Restore(backup string, r Restoration, meanwhile func()) {
	c.t.Helper()
	if r.Token == "" {
		r.Token = embed.NewConfig().InitialClusterToken
	}
	for i := range c.members {
		c.Kill(i)
	}
	for i, m := range c.members {
		m.dir += "-restored"
		if err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
			SnapshotPath: backup, Name: memberName(i), OutputDataDir: m.dir, PeerURLs: []string{m.peer},
			InitialCluster: m.peers, InitialClusterToken: r.Token, RevisionBump: r.Bump, MarkCompacted: r.Bump > 0,
		}); err != nil {
			c.t.Fatal(err)
		}
	}
	meanwhile()
	for i := range c.members {
		c.start(i)
	}
	for i := range c.members {
		c.awaitReady(i)
	}
}

// CopyData copies the data directory of a member, which is paused meanwhile, as a snapshot of its disk does.
func (c *Cluster) CopyData(i int) (dir string) {
	c.t.Helper()
	dir = filepath.Join(c.t.TempDir(), memberName(i))
	c.Pause(i)
	defer c.Resume(i)
	if err := os.CopyFS(dir, os.DirFS(c.members[i].dir)); err != nil {
		c.t.Fatal(err)
	}
	return dir
}

// PutBack kills a member and starts it again on what [Cluster.CopyData] has copied, which can be put back again.
func (c *Cluster) PutBack(i int, dir string) {
	c.t.Helper()
	c.Kill(i)
	c.members[i].dir = filepath.Join(c.t.TempDir(), memberName(i))
	if err := os.CopyFS(c.members[i].dir, os.DirFS(dir)); err != nil {
		c.t.Fatal(err)
	}
	c.Restart(i)
}

// Revision returns that of etcd now.
func Revision(t testing.TB, client *clientv3.Client) int64 {
	t.Helper()
	answer, err := client.Get(t.Context(), "/now")
	if err != nil {
		t.Fatal(err)
	}
	return answer.Header.Revision
}

// Fill lets etcd reach a revision, as other writers do.
func Fill(t testing.TB, client *clientv3.Client, revision int64) {
	t.Helper()
	for Revision(t, client) < revision {
		if _, err := client.Put(t.Context(), "/filler", ""); err != nil {
			t.Fatal(err)
		}
	}
}

// Pause stops a member by SIGSTOP: its connections stay open and it does not answer.
func (c *Cluster) Pause(i int) {
	c.t.Helper()
	if err := c.members[i].process.Pause(); err != nil {
		c.t.Fatal(err)
	}
}

// Resume lets a paused member go on.
func (c *Cluster) Resume(i int) {
	c.t.Helper()
	if err := c.members[i].process.Resume(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *Cluster) start(i int) {
	c.t.Helper()
	m := c.members[i]
	m.process = StartProcess(c.t, memberRole, memberName(i), m.dir, m.endpoint, m.peer, m.peers)
}

// awaitReady waits for the line that a member writes when it serves.
func (c *Cluster) awaitReady(i int) {
	c.t.Helper()
	p := c.members[i].process
	late := time.AfterFunc(startTimeout, p.Kill)
	defer late.Stop()
	if line, err := bufio.NewReader(p.Stdout).ReadString('\n'); err != nil {
		c.t.Fatalf("etcd member %d did not start: %q, %v", i, line, err)
	}
}

// runMember is the role of a member: name, data directory, client URL, peer URL and
// the cluster's members are its arguments.
func runMember(args []string) error {
	client, err := url.Parse(args[2])
	if err != nil {
		return err
	}
	peer, err := url.Parse(args[3])
	if err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Name, config.Dir, config.InitialCluster = args[0], args[1], args[4]
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.SocketOpts.ReusePort = true // the test's process holds the ports, see ReservePort
	config.LogLevel = "panic"
	e, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	select {
	case <-e.Server.ReadyNotify():
		fmt.Println("ready")
	case err = <-e.Err():
		return err
	}
	return <-e.Err()
}

// ReservePort returns a port of 127.0.0.1 that stays the test's own until it ends, also
// while nobody listens there: it is bound here, and a child can bind it as well.
func ReservePort(t testing.TB) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return address.(*unix.SockaddrInet4).Port
}
