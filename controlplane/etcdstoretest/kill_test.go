package etcdstoretest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const (
	loadRole  = "load"
	loadKey   = "/registry/ranges/servicenodeports"
	loadPorts = "30000-30063"
)

var (
	// kills is how often the load is killed while it works, startKills how often while it starts.
	kills, startKills = etcdtest.Cases(20), etcdtest.Cases(4)
	// leastAcknowledged is how many operations must have been acknowledged in all lives together.
	leastAcknowledged = etcdtest.Cases(1000)
)

// TestKill kills a process by SIGKILL that allocates and releases over an embedded
// etcd, again and again on the same data directory. Each time every operation that it
// was told of must be in the store, in one revision as it was acknowledged, and nothing
// else but what was in flight.
func TestKill(t *testing.T) {
	t.Parallel() // it mostly waits for etcd to start
	l := &lives{t: t, dir: filepath.Join(t.TempDir(), "etcd"), values: loadRange(t), held: holders{}}
	for range kills {
		// Twice as many as there must be, on average: a time would be long enough on a fast machine only.
		l.live(1 + rand.IntN(4*leastAcknowledged/kills))
		if l.kills%(kills/startKills) == 0 {
			p := etcdtest.StartProcess(t, loadRole, l.dir)
			time.Sleep(randomTime(time.Second))
			p.Kill()
		}
	}
	l.live(0) // reads what the last one has left

	t.Logf("killed %d times at work and %d times at the start: %d operations acknowledged, %d deferred, %d in flight, of which %d had taken effect",
		kills, startKills, l.acknowledged, l.deferred, l.inFlight, l.ghosts)
	if l.acknowledged < leastAcknowledged || l.inFlight < kills {
		t.Error("too few operations")
	}
}

func loadRange(t *testing.T) rangekeeper.Range {
	r, err := rangekeeper.ParsePortRange(loadPorts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lives is what is known of the processes that have worked on a data directory.
type lives struct {
	t      *testing.T
	dir    string
	values rangekeeper.Range
	// stored is what the store held when it was read last, held the same with the revisions.
	stored state
	held   holders
	// operations are those of the last process.
	operations []*operation

	kills, acknowledged, deferred, inFlight, ghosts int
}

// live starts a process, checks what the one before has left, lets it work on from
// there, kills it after so many acknowledged operations, and notes what it reports
// until it is dead.
func (l *lives) live(acknowledged int) {
	l.t.Helper()
	p := etcdtest.StartProcess(l.t, loadRole, l.dir)
	defer p.Kill()
	stalled := time.AfterFunc(patience, p.Kill)
	defer stalled.Stop()
	var endpoint string
	if _, err := fmt.Fscanf(p.Stdout, "ready %s\n", &endpoint); err != nil {
		l.t.Fatalf("after %d kills the load does not start: %v", l.kills, err)
	}
	l.judge(endpoint)
	for offset, revision := range l.held {
		fmt.Fprintln(p.Stdin, offset, revision) // if it is dead, it reports nothing
	}
	p.Stdin.Close()

	if acknowledged == 0 {
		p.Kill()
	}
	if err := l.read(p, acknowledged); err != nil {
		l.t.Fatal(err)
	}
	l.kills++
}

// judge compares the store with what the last process has reported.
func (l *lives) judge(endpoint string) {
	l.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		l.t.Fatal(err)
	}
	defer client.Close()
	changes, now, err := readHistory(l.t.Context(), client, loadKey, l.values, l.stored)
	if err != nil {
		l.t.Fatal(err)
	}
	ghosts, _, err := explain(changes, l.operations, l.held, false)
	if err != nil {
		l.t.Fatalf("after %d kills: %v", l.kills, err)
	}
	l.stored = now
	l.ghosts += len(ghosts)
	l.operations = nil
}

// read records a process's reports until they end, and kills it soon after so many
// acknowledged operations, in the middle of others.
func (l *lives) read(p *etcdtest.Process, acknowledged int) error {
	byNumber := map[int]*operation{}
	lines := bufio.NewScanner(p.Stdout)
	for lines.Scan() {
		var number int
		o := new(operation)
		if _, err := fmt.Sscanf(lines.Text(), "call %d %d %d %d", &number, &o.kind, &o.offset, &o.asOf); err == nil {
			byNumber[number] = o
			l.operations = append(l.operations, o)
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "end %d %d %d %d", &number, &o.outcome, &o.offset, &o.revision); err != nil {
			return fmt.Errorf("the load reports %q", lines.Text())
		}
		called := byNumber[number]
		called.outcome, called.offset, called.revision = o.outcome, o.offset, o.revision
		if o.outcome != deferred && o.outcome != unknown {
			if acknowledged--; acknowledged == 0 {
				time.AfterFunc(randomTime(10*time.Millisecond), p.Kill)
			}
		}
	}
	for _, o := range l.operations {
		switch o.outcome {
		case unknown:
			l.inFlight++
		case deferred:
			l.deferred++
		default:
			l.acknowledged++
		}
	}
	return lines.Err()
}

// runLoad is the process that is killed. It reads what it holds from stdin, an offset
// and a revision a line, and reports each operation on stdout before it calls the store
// and again as soon as it has an answer.
func runLoad(args []string) error {
	ctx := context.Background()
	e, err := embedded.Start(ctx, embedded.Config{Dir: args[0]})
	if err != nil {
		return err
	}
	values, err := rangekeeper.ParsePortRange(loadPorts)
	if err != nil {
		return err
	}
	store, err := etcdstore.Open(etcdstore.Config{
		Client: e.Client(), Key: loadKey, Range: values, Strategy: rangekeeper.DynamicBandFirst,
	})
	if err != nil {
		return err
	}
	if _, err := store.Init(ctx); err != nil {
		return err
	}
	fmt.Println("ready", e.Endpoints()[0])
	held := make([][]*operation, callers)
	for i := 0; ; i++ {
		o := &operation{outcome: done}
		if _, err := fmt.Scanln(&o.offset, &o.revision); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		held[i%callers] = append(held[i%callers], o)
	}
	var (
		number atomic.Int64
		work   sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	for _, held := range held {
		work.Go(func() {
			for {
				o := nextOperation(ctx, e.Client(), values, &held)
				n := number.Add(1)
				report("call", n, int(o.kind), o.offset, o.asOf)
				if err := perform(ctx, store, values, o); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = errors.Join(failed, fmt.Errorf("%v: %w", o, err))
					return
				}
				report("end", n, int(o.outcome), o.offset, o.revision)
				if o.kind != release && o.outcome == done {
					held = append(held, o)
				}
			}
		})
	}
	work.Wait()
	return failed
}

// nextOperation chooses what a caller does next and takes from held what it gives back.
func nextOperation(ctx context.Context, client *clientv3.Client, values rangekeeper.Range, held *[]*operation) *operation {
	if n := len(*held); n > rand.IntN(8) {
		i := rand.IntN(n)
		mine := (*held)[i]
		*held = append((*held)[:i], (*held)[i+1:]...)
		o := &operation{kind: release, offset: mine.offset, asOf: mine.revision}
		if now, err := client.Get(ctx, "/registry/services"); err == nil && rand.IntN(2) == 0 {
			o.asOf = now.Header.Revision
		}
		return o
	}
	if rand.IntN(4) == 0 {
		return &operation{kind: allocate, offset: uint32(rand.IntN(int(values.Size())))}
	}
	return &operation{kind: allocateNext}
}

// report writes a line at once and whole: the process may be dead before the next
// instruction.
func report(word string, numbers ...any) {
	os.Stdout.WriteString(fmt.Sprintln(append([]any{word}, numbers...)...))
}
