package rangekeeper

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

var ledgerNow = time.Unix(1_800_000_000, 0)

func openedLedger(t *testing.T, pool Pool, stored []byte) *Ledger {
	t.Helper()
	ledger, err := OpenLedger(pool, stored, 7)
	if err != nil {
		t.Fatal(err)
	}
	return ledger
}

// TestLedgerAgreesWithAMap plays random changes on ledgers of every kind of range, and on a map of owners by value.
func TestLedgerAgreesWithAMap(t *testing.T) {
	const steps = 20_000
	random := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		pool  Pool
		value func(n uint64) LedgerValue
		size  uint64
	}{
		{Pool{Range: "4096-4159", Choice: Lowest}, func(n uint64) LedgerValue { return IntegerValue(4096 + n) }, 64},
		{Pool{Range: "0-18446744073709551615", Choice: Lowest}, IntegerValue, 4096}, // of the lowest, more than are in use
		{Pool{Range: "1000000000-1000639999/10000", Choice: Random}, func(n uint64) LedgerValue {
			return IntegerBlockValue(1000000000+10000*n, 10000)
		}, 64},
		{Pool{Range: "10.0.0.0/22/28", Choice: NextFit}, func(n uint64) LedgerValue {
			return NetworkValue(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 4), byte(n << 4)}), 28))
		}, 64},
		{Pool{Range: "fd00::/122", Choice: Random}, func(n uint64) LedgerValue {
			return AddressValue(netip.MustParseAddr("fd00::" + strconv.FormatUint(n+1, 16)))
		}, 63},
	} {
		ledger, model := openedLedger(t, test.pool, nil), map[LedgerValue]string{}
		offsets := map[LedgerValue]uint64{}
		for n := range test.size {
			offsets[test.value(n)] = n
		}
		given, refused := 0, 0
		for range steps {
			owner, value := "owner/"+strconv.Itoa(random.IntN(12)), test.value(random.Uint64N(test.size))
			var of []LedgerValue
			for value, by := range model {
				if by == owner {
					of = append(of, value)
				}
			}
			switch random.IntN(6) {
			case 0, 1:
				got, err := ledger.Allocate(WantAny(), owner, ledgerNow)
				switch {
				case len(of) == 1 && (err != nil || got.First != of[0]), len(of) > 1 && !errors.Is(err, ErrHasOther):
					t.Fatalf("%s: %s has %v and got %v, %v", test.pool.Range, owner, of, got, err)
				case len(of) == 0 && errors.Is(err, ErrFull) && len(model) == len(offsets):
					refused++
				case len(of) == 0:
					_, taken := model[got.First]
					if err != nil || taken || got.Len != 1 {
						t.Fatalf("%s: %s got %v, %v", test.pool.Range, owner, got, err)
					}
					model[got.First] = owner
					given++
				}
			case 2:
				got, err := ledger.Allocate(WantValue(value), "", ledgerNow)
				if by, taken := model[value]; taken {
					if !errors.Is(err, ErrAlreadyAllocated) || by != "" && !strings.Contains(err.Error(), by) {
						t.Fatalf("%s: %v is in use by %q, and got %v, %v", test.pool.Range, value, by, got, err)
					}
					refused++
				} else if err != nil || got.First != value {
					t.Fatalf("%s: %v is free, and got %v, %v", test.pool.Range, value, got, err)
				} else {
					model[value] = ""
				}
			case 3:
				got, err := ledger.ReleaseOwner(owner, ledgerNow)
				if err != nil || len(of) == 0 != (len(got) == 0) {
					t.Fatalf("%s: %s had %v, and released %v, %v", test.pool.Range, owner, of, got, err)
				}
				for _, value := range of {
					delete(model, value)
				}
			case 4:
				released, err := ledger.Release(value, ledgerNow)
				by, taken := model[value]
				if by != "" != errors.Is(err, ErrOwned) || by == "" && released != taken {
					t.Fatalf("%s: %v of %q: released %v, %v", test.pool.Range, value, by, released, err)
				}
				if by == "" {
					delete(model, value)
				}
			default:
				bits := uint8(random.IntN(3))
				got, err := ledger.Allocate(WantBlock(bits), owner, ledgerNow)
				if len(of) > 0 || err != nil {
					continue
				}
				for n := range uint64(got.Len) {
					value := test.value(offsets[got.First] + n)
					if _, taken := model[value]; taken {
						t.Fatalf("%s: %v is handed out twice", test.pool.Range, value)
					}
					model[value] = owner
				}
			}
			owner, inUse, err := ledger.OwnerOf(value)
			if by, taken := model[value]; err != nil || owner != by || inUse != taken {
				t.Fatalf("%s: %v has the owner %q (%v), not %q (%v): %v", test.pool.Range, value, owner, inUse, by, taken, err)
			}
		}
		if given < steps/20 || refused < steps/50 {
			t.Errorf("%s: only %d given and %d refused of %d", test.pool.Range, given, refused, steps)
		}
		// What is stored is the same, and so are the values.
		stored, err := ledger.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again := openedLedger(t, test.pool, stored)
		values := slices.Collect(again.Values())
		if !slices.IsSortedFunc(values, func(a, b LedgerValue) int { return int(offsets[a]) - int(offsets[b]) }) {
			t.Errorf("%s: %v are not ascending", test.pool.Range, values)
		}
		usage, err := again.Usage()
		if err != nil || len(values) != len(model) || usage.Used != uint64(len(model)) {
			t.Errorf("%s: %d values, %+v, in the model %d: %v", test.pool.Range, len(values), usage, len(model), err)
		}
		for _, value := range values {
			parsed, err := again.ParseValue(value.String())
			owner, _, _ := again.OwnerOf(value)
			if err != nil || parsed != value || owner != model[value] {
				t.Errorf("%s: %v is read as %v with the owner %q, not %q: %v", test.pool.Range, value, parsed, owner, model[value], err)
			}
		}
		t.Logf("%s: %d steps, %d given, %d refused", test.pool.Range, steps, given, refused)
	}
}

func TestLedgerValuesByPages(t *testing.T) {
	ledger := openedLedger(t, Pool{Range: "0-99999999", Choice: Random}, nil)
	seen := map[uint64]bool{}
	for range 10_000 {
		got, err := ledger.Allocate(WantAny(), "", ledgerNow)
		if err != nil || seen[got.First.Integer()] {
			t.Fatal(got, err)
		}
		seen[got.First.Integer()] = true
	}
	last, n := -1, 0
	for value := range ledger.Values() {
		if int(value.Integer()) <= last || !seen[value.Integer()] {
			t.Fatalf("%v after %d", value, last)
		}
		last = int(value.Integer())
		n++
	}
	if n != len(seen) {
		t.Fatalf("%d of %d values", n, len(seen))
	}
	// The highest offset of all has no next one.
	widest := openedLedger(t, Pool{Range: "0-18446744073709551615", Choice: Lowest}, nil)
	for _, want := range []Want{WantRun(4095), WantValue(IntegerValue(1<<64 - 1))} {
		if _, err := widest.Allocate(want, "", ledgerNow); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(slices.Collect(widest.Values())); n != 4096 {
		t.Errorf("%d of 4096 values", n)
	}
}

// TestLedgerOpensAKubernetesRange: a range that a kube-apiserver stored is a ledger, and it is encoded as it was.
func TestLedgerOpensAKubernetesRange(t *testing.T) {
	file := must(os.Open("testdata/kube-1.32-dual-stack/clean-servicenodeports.bin.gz"))
	defer file.Close()
	stored := must(io.ReadAll(must(gzip.NewReader(file))))
	ledger := openedLedger(t, Pool{Range: "30000-32767", Choice: Lowest}, stored)
	if usage, err := ledger.Usage(); err != nil || usage.Used == 0 || usage.Size != 2768 {
		t.Fatal(usage, err)
	}
	again, err := ledger.Encode()
	if err != nil || string(again) != string(stored) {
		t.Fatalf("%d bytes have become %d: %v", len(stored), len(again), err)
	}
}

func TestLedgerRefusals(t *testing.T) {
	for _, test := range []struct {
		pool   Pool
		stored string
		reason error
		says   string
	}{
		{Pool{Range: "1-9"}, "", ErrInvalidArgument, `choice ""`},
		{Pool{Range: "9-1", Choice: Lowest}, "", ErrInvalidArgument, "9-1"},
		{Pool{Range: "1-9", Choice: Lowest, CoolDown: time.Minute}, "", ErrInvalidArgument, "at most 0 releases"},
		{Pool{Range: "1-9", Choice: Lowest, CoolDownAtMost: 1}, "", ErrInvalidArgument, "a cool-down of 0 ms"},
		{Pool{Range: "1-9", Choice: Lowest, CoolDown: -time.Minute, CoolDownAtMost: 1}, "", ErrInvalidArgument, "a cool-down of 0 ms"},
		{Pool{Range: "1-9", Choice: Lowest, Exclude: []string{"10"}}, "", ErrInvalidArgument, `"10"`},
		{Pool{Range: "1-9", Choice: Lowest}, "k8s", ErrUnreadable, ""},
		{Pool{Range: "1-9", Choice: Lowest}, "k8s:enc:aescbc:v1:key1:xx", ErrEncrypted, "encrypted"},
	} {
		_, err := OpenLedger(test.pool, []byte(test.stored), 1)
		if !errors.Is(err, test.reason) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v, %q: %v", test.pool, test.stored, err)
		}
	}
	pool := Pool{Range: "1-9", Choice: Lowest, Exclude: []string{"5"}, Reserve: []string{"6-7"}, StaticBands: []string{"8-9"},
		CoolDown: time.Minute, CoolDownAtMost: 10}
	ledger := openedLedger(t, pool, nil)
	for _, want := range []uint64{1, 2, 3, 4, 8, 9} {
		if got, err := ledger.Allocate(WantAny(), "", ledgerNow); err != nil || got.First != IntegerValue(want) {
			t.Fatalf("%v instead of %d: %v", got, want, err)
		}
	}
	refused := func(want Want, owner string, reason error) {
		t.Helper()
		var detailed *LedgerError
		if got, err := ledger.Allocate(want, owner, ledgerNow); !errors.Is(err, reason) || !errors.As(err, &detailed) {
			t.Errorf("got %v, %v, and not: %v", got, err, reason)
		}
	}
	refused(WantAny(), "", ErrFull)
	refused(WantRun(2), "", ErrFull)
	refused(WantRun(0), "", ErrInvalidArgument)
	refused(WantBlock(255), "", ErrInvalidArgument)
	refused(WantValue(IntegerValue(5)), "", ErrNotInRange)
	refused(WantValue(AddressValue(netip.MustParseAddr("10.0.0.1"))), "", ErrNotInRange)
	refused(WantValue(LedgerValue{}), "", ErrInvalidArgument)
	refused(WantAny(), strings.Repeat("x", 1025), ErrInvalidArgument)
	refused(WantAny(), "\xff", ErrInvalidUTF8)
	// A released value cools down for a minute.
	if released, err := ledger.Release(IntegerValue(3), ledgerNow); err != nil || !released {
		t.Fatal(err)
	}
	refused(WantAny(), "", ErrFull)
	if got, err := ledger.Allocate(WantAny(), "", ledgerNow.Add(time.Minute)); err != nil || got.First != IntegerValue(3) {
		t.Fatal(got, err)
	}
	// A time before 1970 ends no cool-down, and one that begins then is over.
	if _, err := ledger.Release(IntegerValue(4), ledgerNow); err != nil {
		t.Fatal(err)
	}
	for _, now := range []time.Time{{}, time.Unix(-1, 0), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got, err := ledger.Allocate(WantAny(), "", now); !errors.Is(err, ErrFull) {
			t.Error(now, got, err)
		}
	}
	if _, err := ledger.ReleaseOwner("", ledgerNow); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if all, err := ledger.OwnedBy("\xff"); !errors.Is(err, ErrInvalidUTF8) || err.Error() == "" {
		t.Error(all, err)
	}
	_ = ledger.Close()
	if _, err := ledger.Allocate(WantAny(), "", ledgerNow); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestLedgerValues(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.17/28": "10.0.0.16/28", "::ffff:10.0.0.17/124": "10.0.0.16/28", "fd00::17/64": "fd00::/64", "::ffff:10.0.0.0/95": "none",
	} {
		value := NetworkValue(netip.MustParsePrefix(text))
		if value.String() != want || want != "none" && value.Prefix().String() != want {
			t.Errorf("%s is %v, and not %s", text, value, want)
		}
	}
	if value := AddressValue(netip.MustParseAddr("::ffff:10.0.0.1")); value.Addr().String() != "10.0.0.1" || value.Prefix().IsValid() || value.Size() != 0 {
		t.Error(value)
	}
	if value := IntegerBlockValue(20000, 10000); value.Integer() != 20000 || value.Size() != 10000 || value.Addr().IsValid() {
		t.Error(value)
	}
	for want, first := range map[string]LedgerValue{
		"[41 42 43]":                                             IntegerValue(41),
		"[20000/10000 30000/10000 40000/10000]":                  IntegerBlockValue(20000, 10000),
		"[10.0.0.255 10.0.1.0 10.0.1.1]":                         AddressValue(netip.MustParseAddr("10.0.0.255")),
		"[10.0.0.240/28 10.0.1.0/28 10.0.1.16/28]":               NetworkValue(netip.MustParsePrefix("10.0.0.240/28")),
		"[fd00::ffff:ffff:ffff:ffff fd00:0:0:1:: fd00:0:0:1::1]": AddressValue(netip.MustParseAddr("fd00::ffff:ffff:ffff:ffff")),
		"[fd00:0:0:f::/64 fd00:0:0:10::/64 fd00:0:0:11::/64]":    NetworkValue(netip.MustParsePrefix("fd00:0:0:f::/64")),
		"[fd00::f000:0/100 fd00::1:0:0/100 fd00::1:1000:0/100]":  NetworkValue(netip.MustParsePrefix("fd00::f000:0/100")),
		"[fd00:0:f000::/36 fd00:1::/36 fd00:1:1000::/36]":        NetworkValue(netip.MustParsePrefix("fd00:0:f000::/36")),
	} {
		if got := fmt.Sprint(slices.Collect(Allocation{First: first, Len: 3}.Values())); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if none := (LedgerValue{}); none.String() != "none" || none != NetworkValue(netip.Prefix{}) || none != AddressValue(netip.Addr{}) {
		t.Error(none)
	}
}

func TestLedgerAudit(t *testing.T) {
	ledger := openedLedger(t, Pool{Range: "1-9", Choice: Lowest}, nil)
	for _, owner := range []string{"a", "b", ""} {
		if _, err := ledger.Allocate(WantAny(), owner, ledgerNow); err != nil {
			t.Fatal(err)
		}
	}
	leaks := OwnerLeaks{Passes: 3}
	for pass := 1; pass <= 4; pass++ {
		findings, due, err := ledger.Audit([]string{"c", "b"}, &leaks)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, finding := range findings {
			all = append(all, finding.Reason+" "+finding.Owner+" "+finding.Value)
			if finding.Message == "" {
				t.Errorf("%+v has no message", finding)
			}
		}
		if !slices.Equal(all, []string{"OwnerGone a 1", "OwnerUnknown c ", "NoOwner  3"}) {
			t.Errorf("%q", all)
		}
		wantDue, wantCount := pass == 3, []uint8{1, 2, 0, 1}[pass-1]
		if slices.Equal(due, []string{"a"}) != wantDue || leaks.Counts["a"] != wantCount {
			t.Errorf("pass %d: due %q, counts %v", pass, due, leaks.Counts)
		}
	}
}

// A tokenRow is a store that answers as fate says.
type tokenRow struct {
	value   []byte
	version byte
}

func (r *tokenRow) token() []byte {
	if r.version == 0 {
		return nil
	}
	return []byte{r.version}
}

// play answers requests until there is none. lose says whether an answer gets lost.
func (r *tokenRow) play(t *testing.T, ledger *SharedLedger, lose func() bool) {
	t.Helper()
	for {
		request, err := ledger.Poll(ledgerNow)
		if err != nil {
			t.Fatal(err)
		}
		switch request.Kind {
		case RequestNone:
			return
		case RequestGet:
			err = ledger.Got(r.value, r.token())
		case RequestCreate, RequestReplace:
			put := string(request.Token) == string(r.token())
			if put {
				r.value, r.version = request.Value, r.version+1
			}
			switch {
			case lose():
				err = ledger.Unanswered()
			case put:
				err = ledger.Put(r.token())
			default:
				err = ledger.Changed(ledgerNow)
			}
		default:
			t.Fatalf("nobody else writes, and it asks for %+v", request)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSharedLedger(t *testing.T) {
	pool := Pool{Range: "100-999", Choice: Lowest}
	first, err := NewSharedLedger(pool, 1)
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewSharedLedger(pool, 2)
	if err != nil {
		t.Fatal(err)
	}
	if known, err := first.Known(); known != nil || err != nil {
		t.Fatal(known, err)
	}
	submit := func(ledger *SharedLedger, owner string) ChangeTicket {
		ticket, err := ledger.SubmitAllocate(WantAny(), owner)
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	row, never := tokenRow{}, func() bool { return false }
	outcome := func(ledger *SharedLedger, ticket ChangeTicket, want uint64) {
		t.Helper()
		all, ended, err := ledger.Outcome(ticket)
		if err != nil || !ended || len(all) != 1 || all[0].First != IntegerValue(want) {
			t.Errorf("%v, %v, %v instead of %d", all, ended, err, want)
		}
	}
	a := submit(first, "a")
	if _, ended, err := first.Outcome(a); ended || err != nil {
		t.Fatal(ended, err)
	}
	row.play(t, first, never)
	outcome(first, a, 100)
	if _, ended, err := first.Outcome(a); ended || err != nil {
		t.Fatal("an outcome is told once", ended, err)
	}
	b := submit(second, "b")
	row.play(t, second, never)
	outcome(second, b, 101)

	// The answer to the put of the first one gets lost: what an owner has is found again, what nobody has is unknown.
	c, nobody := submit(first, "c"), submit(first, "")
	times := 0
	row.play(t, first, func() bool { times++; return times == 2 })
	outcome(first, c, 102)
	if _, ended, err := first.Outcome(nobody); !ended || !errors.Is(err, ErrUnanswered) {
		t.Error(ended, err)
	}

	// A caller goes: what it was given for nobody is released.
	gone := submit(second, "")
	row.play(t, second, never)
	if err := second.Cancel(gone); err != nil {
		t.Fatal(err)
	}
	row.play(t, second, never)
	known, err := second.Known()
	if err != nil {
		t.Fatal(err)
	}
	if usage, err := known.Usage(); err != nil || usage.Used != 4 {
		t.Errorf("%+v, %v: a, b, c and the unanswered one", usage, err)
	}
	release, err := second.SubmitReleaseOwner("a")
	if err != nil {
		t.Fatal(err)
	}
	value, err := second.SubmitRelease(IntegerValue(101))
	if err != nil {
		t.Fatal(err)
	}
	row.play(t, second, never)
	outcome(second, release, 100)
	if _, ended, err := second.Outcome(value); !ended || !errors.Is(err, ErrOwned) {
		t.Error(ended, err)
	}

	// A value that is no ledger of the pool is refused, and read again.
	stored := row.value
	row.value, row.version = []byte("k8s"), row.version+1
	d := submit(first, "d")
	request, err := first.Poll(ledgerNow)
	for err == nil {
		if request.Kind == RequestGet {
			break
		}
		if err = first.Changed(ledgerNow); err != nil {
			break
		}
		request, err = first.Poll(ledgerNow)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Got(row.value, row.token()); !errors.Is(err, ErrUnreadable) {
		t.Error(err)
	}
	row.value = nil
	request, err = first.Poll(ledgerNow)
	if err != nil || request.Kind != RequestGet {
		t.Fatal(request, err)
	}
	if err := first.Got(row.value, row.token()); !errors.Is(err, ErrUnreadable) {
		t.Error("an emptied store is taken for a new one", err)
	}
	row.value = stored
	row.play(t, first, never)
	outcome(first, d, 100)
}

// TestLedgerJSON plays the examples of docs/ledger-json.md.
func TestLedgerJSON(t *testing.T) {
	document := string(must(os.ReadFile("testdata/ledger-json.md")))
	_, document, _ = strings.Cut(document, "```json\n")
	pool, document, _ := strings.Cut(document, "```")
	_, document, _ = strings.Cut(document, "```json\n")
	question, document, _ := strings.Cut(document, "```")
	_, document, _ = strings.Cut(document, "```json\n")
	answer, _, found := strings.Cut(document, "```")
	if !found {
		t.Fatal("there are not three examples")
	}
	var ledger *rk.Ledger
	var details rk.Error
	if code := rk.LedgerNew(pool, nil, 1, &ledger, &details); code != rk.ResultOK {
		t.Fatal(details.Message)
	}
	rk.LedgerFree(ledger)
	vnis := openedLedger(t, Pool{Range: "4096-16777215", Choice: Lowest}, nil)
	for _, owner := range []string{"green", "red"} {
		if _, err := vnis.Allocate(WantAny(), owner, ledgerNow); err != nil {
			t.Fatal(err)
		}
	}
	buffer, n := make([]byte, 1024), uint(0)
	if code := rk.LedgerAudit(vnis.pointer(), question, buffer, &n, &details); code != rk.ResultOK {
		t.Fatal(details.Message)
	}
	var got, want any
	if err := errors.Join(json.Unmarshal(buffer[:n], &got), json.Unmarshal([]byte(answer), &want)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s\n%v", buffer[:n], err)
	}
}
