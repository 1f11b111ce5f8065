// Package embedded runs an etcd inside the process: one member on loopback that
// keeps its data on disk as a real one does.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// DefaultQuota is the size in bytes at which the database refuses to grow: the
// largest that etcd recommends.
const DefaultQuota = 8 << 30

// A restored data directory holds the member's name and peer URL, so both are
// fixed. Nobody connects to the peer URL of a single member; port 0 lets the
// system choose.
const (
	memberName = "rangekeeper"
	host       = "127.0.0.1"
	anyPort    = "http://" + host + ":0"
)

// A single member has nobody's heartbeats to wait for: it elects itself when the
// time for an election is over, which is most of the time that a start takes. etcd
// wants five ticks in it at least.
const (
	tickMs     = 10
	electionMs = 5 * tickMs
)

// etcd keeps the log of its last writes in memory for members that lag behind,
// which a single one has not, and reads that since its last snapshot when it
// starts. A write can be large here: the bitmap of a /12 has 128 KiB. Files of the
// log, of 64 MB, that are not needed any more are kept, too, up to this number.
const (
	catchUpEntries = 1
	snapshotCount  = 256
	maxWALFiles    = 1
)

// ErrInUse: another process, or this one, runs an etcd in a data directory.
var ErrInUse = errors.New("the data directory is in use by another process; an etcd with a data directory runs only once")

// lockName is the file in a data directory that is locked while an etcd runs.
const lockName = "rangekeeper.lock"

// Config says how [Start] runs etcd.
type Config struct {
	// Dir is the data directory; required. It is made if it does not exist.
	Dir string
	// ClientPort is where clients reach etcd on 127.0.0.1; 0 for a free port. One that is
	// taken returns [syscall.EADDRINUSE].
	ClientPort uint16
	// Quota is the largest size of the database in bytes; 0 for DefaultQuota.
	Quota int64
	// KeepHistory leaves the history uncompacted, for measurements of how much a
	// write adds to the database.
	KeepHistory bool
}

// Etcd is a running member. It must be closed.
type Etcd struct {
	lock   *fileutil.LockedFile
	server *embed.Etcd
	client *clientv3.Client
	close  sync.Once
}

// Start runs an etcd on 127.0.0.1 and waits until it serves. Writes
// are synced to disk and the history is compacted to the last 5 minutes, if it is
// not to be kept. It logs only the error that ends it. An existing database
// is first read once, so that damage comes back as an error; use by another
// process returns [ErrInUse].
func Start(ctx context.Context, c Config) (*Etcd, error) {
	if c.Dir == "" {
		return nil, errors.New("embedded etcd: no data directory is configured")
	}
	loopback, err := url.Parse(anyPort)
	if err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Name = memberName
	config.Dir = c.Dir
	clients := url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(int(c.ClientPort)))}
	config.ListenClientUrls = []url.URL{clients}
	config.AdvertiseClientUrls = []url.URL{clients}
	config.ListenPeerUrls = []url.URL{*loopback}
	config.AdvertisePeerUrls = []url.URL{*loopback}
	config.InitialCluster = config.InitialClusterFromName(memberName)
	config.InitialClusterToken = rand.Text() // so that each new cluster has an id of its own; a data directory keeps its
	config.TickMs, config.ElectionMs = tickMs, electionMs
	config.SnapshotCount, config.SnapshotCatchUpEntries = snapshotCount, catchUpEntries
	config.MaxWalFiles = maxWALFiles
	config.QuotaBackendBytes = c.Quota
	if c.Quota == 0 {
		config.QuotaBackendBytes = DefaultQuota
	}
	if !c.KeepHistory {
		config.AutoCompactionMode = embed.CompactorModePeriodic
		config.AutoCompactionRetention = "5m"
	}
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(quietLogger())

	e := new(Etcd)
	if e.lock, err = lock(c.Dir); err == nil {
		err = checkDatabase(ctx, c.Dir)
	}
	if err == nil {
		err = guard(func() error {
			e.server, err = embed.StartEtcd(config)
			return err
		})
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("embedded etcd in %s: %w", c.Dir, err)
	}
	select {
	case <-e.server.Server.ReadyNotify():
	case err = <-e.server.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		err = e.publish()
	}
	if err == nil {
		e.client, err = clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), Logger: zap.NewNop()})
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("embedded etcd in %s: %w", c.Dir, err)
	}
	return e, nil
}

// Client is a client of this etcd over the network; Close closes it.
func (e *Etcd) Client() *clientv3.Client { return e.client }

// Endpoints are the URLs at which clients reach this etcd.
func (e *Etcd) Endpoints() []string {
	var urls []string
	for _, l := range e.server.Clients {
		urls = append(urls, "http://"+l.Addr().String())
	}
	return urls
}

// DatabaseSize returns the size of the database in bytes, with its free pages:
// the size that the quota limits. It first commits all writes that were answered to the
// database, which etcd itself does ten times a second.
func (e *Etcd) DatabaseSize() int64 {
	e.server.Server.KV().Commit()
	return e.server.Server.Backend().Size()
}

// Compact forgets all that was stored earlier and is not any more, so that the space
// is used again. The compaction of the history to its last 5 minutes never comes for
// a process that runs a shorter time.
func (e *Etcd) Compact(ctx context.Context) error {
	now, err := e.client.Get(ctx, "\x00") // any key has the revision in its answer
	if err != nil {
		return err
	}
	_, err = e.client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil // nothing was written since the last time
	}
	return err
}

// Close stops etcd and returns when its files are closed. It can be called again.
func (e *Etcd) Close() {
	e.close.Do(func() {
		if e.client != nil {
			e.client.Close() // the connection is gone, whatever it says
		}
		if e.server != nil {
			e.server.Close()
		}
		if e.lock != nil {
			e.lock.Close() // it is unlocked by that
		}
	})
}

// Restore makes a data directory for [Start] from an etcd snapshot file, plain or
// gzip-compressed. dir must not exist or be empty, and stays so if it fails.
func Restore(ctx context.Context, path, dir string, o snapshotfile.Options) error {
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("restore %s: %s is not empty", path, dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("restore %s: %w", path, err)
	}
	f, err := snapshotfile.Open(ctx, path, o)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	partial, err := os.MkdirTemp(filepath.Dir(dir), ".rangekeeper-restore-")
	if err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	defer os.RemoveAll(partial) // nothing is left of it once it is renamed
	plain := partial + ".db"
	if err := writePlain(f, plain); err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	defer os.Remove(plain)
	err = guard(func() error {
		return snapshot.NewV3(quietLogger()).Restore(snapshot.RestoreConfig{
			SnapshotPath:   plain,
			Name:           memberName,
			OutputDataDir:  partial,
			PeerURLs:       []string{anyPort},
			InitialCluster: memberName + "=" + anyPort,
			SkipHashCheck:  o.SkipHashCheck,
		})
	})
	if err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	if err := os.Rename(partial, dir); err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	return nil
}

// writePlain writes the uncompressed snapshot to a new file.
func writePlain(f *snapshotfile.File, path string) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteTo(out)
	return errors.Join(err, out.Close())
}

// HasData reports whether an etcd has run in a directory, or is running there.
func HasData(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, "member"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// lock makes sure that no other process runs an etcd in a directory, which it makes
// if it is missing. etcd itself would wait until the other one ends. The system
// takes the lock back when the process ends, however it does.
func lock(dir string) (*fileutil.LockedFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := fileutil.TryLockFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, inUse(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", filepath.Join(dir, lockName), err)
	}
	return f, nil
}

// inUse returns [ErrInUse] with the URL that the other process serves, if it has written that into its lock.
func inUse(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, lockName))
	if served, parseErr := url.Parse(string(text)); err != nil || parseErr != nil || served.Host == "" {
		return ErrInUse
	}
	return fmt.Errorf("%w: it serves --endpoints %s", ErrInUse, text)
}

// publish writes the URL at which this etcd serves into its lock.
func (e *Etcd) publish() error {
	text := []byte(strings.Join(e.Endpoints(), ","))
	if err := e.lock.Truncate(0); err != nil {
		return err
	}
	_, err := e.lock.WriteAt(text, 0)
	return err
}

// checkDatabase reads through the database in a data directory, if there is one.
// etcd itself ends the process if it is damaged, and waits forever for one that is
// not known to lock and runs there, such as an etcd of its own.
func checkDatabase(ctx context.Context, dir string) error {
	f, err := snapshotfile.Open(ctx, filepath.Join(dir, "member", "snap", "db"), snapshotfile.Options{SkipHashCheck: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// guard turns a panic of etcd into an error: that is how it reports a damaged
// data directory.
func guard(fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *gaveUpError:
			err = r
		default:
			err = fmt.Errorf("%v", r)
		}
	}()
	return fn()
}

// quietLogger is silent. Where etcd would panic or end the process, it panics with a [gaveUpError].
func quietLogger() *zap.Logger { return zap.New(panicking{zapcore.DPanicLevel}) }

// panicking is the core of a logger that panics with each entry.
type panicking struct{ zapcore.LevelEnabler }

func (p panicking) With([]zapcore.Field) zapcore.Core { return p }

func (p panicking) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if p.Enabled(entry.Level) {
		return checked.AddCore(entry, p)
	}
	return checked
}

func (panicking) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	panic(&gaveUpError{entry.Message, fields})
}

func (panicking) Sync() error { return nil }

// gaveUpError is the last log entry of an etcd that cannot go on.
type gaveUpError struct {
	message string
	fields  []zapcore.Field
}

func (e *gaveUpError) Error() string {
	if cause := e.Unwrap(); cause != nil {
		return fmt.Sprintf("%s: %v", e.message, cause)
	}
	return e.message
}

// Unwrap returns the error that the entry has, nil if it has none.
func (e *gaveUpError) Unwrap() error {
	for _, field := range e.fields {
		if err, ok := field.Interface.(error); ok {
			return err
		}
	}
	return nil
}
