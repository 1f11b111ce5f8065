package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/version"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// onTerminal runs a command on a pseudo terminal of that width, and returns what the terminal gets.
func onTerminal(t *testing.T, width uint16, args ...string) (code int, shown string) {
	t.Helper()
	return command.OnTerminal(t, width, args...)
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// isPage reports whether a line has nothing but a page of the runbook, a word that is not broken.
func isPage(line string) bool {
	page := strings.TrimPrefix(strings.TrimSpace(line), "Runbook: ")
	return strings.HasPrefix(page, "https://") && !strings.Contains(page, " ")
}

// TestScreenOfTerminal reads the screens of audit, repair and preflight on terminals of several widths.
func TestScreenOfTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for cluster := range bitmaps {
		file := etcdtest.Fixture(cluster, "drift.db.gz")
		for _, args := range [][]string{{"audit"}, {"audit", "-o", "wide"}, {"repair"}, {"repair", "-o", "wide"}, {"preflight", "--to", "1.37"}, {"preflight", "--to", "1.33", "-o", "wide"}} {
			args = append(args, "--etcd-snapshot", file)
			_, piped, _ := run(t, args...)
			for _, width := range []uint16{80, 100, 250} {
				_, shown := onTerminal(t, width, args...)
				plain := escapes.ReplaceAllString(shown, "")
				if plain == shown {
					t.Errorf("%v: no colour", args)
				}
				for line := range strings.Lines(plain) {
					if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > int(width) && !strings.Contains(line, file) && !isPage(line) {
						t.Errorf("%v: %d columns of %d: %q", args, n, width, line)
					}
				}
				// But for the breaks of lines it is the same text.
				words := func(s string) []string { return strings.Fields(strings.ReplaceAll(s, "\\\n", "")) }
				if !slices.Equal(words(plain), words(piped)) {
					t.Errorf("%v: on a terminal\n%s\npiped\n%s", args, plain, piped)
				}
			}
			if strings.Contains(piped, "\x1b") {
				t.Errorf("%v: colour in a pipe", args)
			}
		}
	}
	file := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	for variable, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			if code, shown := onTerminal(t, 80, "audit", "--etcd-snapshot", file); code != exitFound || strings.Contains(shown, "\x1b") {
				t.Errorf("exit code %d\n%s", code, shown)
			}
		})
	}
}

// TestNarrowTerminal reads the screens of all commands on a terminal of 40 columns: only what is one word, or a command
// to paste, may be longer than a line.
func TestNarrowTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	file := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	for _, line := range []string{
		"audit", "audit -o wide", "repair", "repair -o wide", "show servicenodeports", "show serviceips", "free servicenodeports", "free serviceips",
		"explain default/kubernetes", "explain 30001", "explain RangeFull", "preflight --to 1.37", "preflight --to 1.33 -o wide",
	} {
		args := strings.Fields(line)
		if !strings.Contains(line, "Range") {
			args = append(args, "--etcd-snapshot", file)
		}
		_, shown := onTerminal(t, 40, args...)
		goesOn := false
		for line := range strings.Lines(shown) {
			line = strings.TrimSuffix(line, "\n")
			text := strings.TrimSpace(line)
			isCommand := goesOn || strings.HasPrefix(text, "kubectl ") || strings.HasPrefix(text, "| ")
			goesOn = strings.HasSuffix(line, "\\")
			if n := utf8.RuneCountInString(line); n > 40 && strings.Contains(text, " ") && !isCommand && !isPage(line) {
				t.Errorf("%v: %d columns: %q", args, n, line)
			}
		}
	}
	_, shown := onTerminal(t, 40, "free", "servicenodeports", "--etcd-snapshot", file)
	if want := "\nRANGE   servicenodeports\nVALUES  30000-32767\nBAND    static\nFREE    "; !strings.Contains(shown, want) || strings.Contains(shown, "BAND     FREE") {
		t.Errorf("no %q in\n%s", want, shown)
	}
	_, shown = onTerminal(t, 40, "audit", "--help")
	if want := "\n  --fail-on string\n      exit code 1 only for faults of\n      this severity or a worse one:\n"; !strings.Contains(shown, want) {
		t.Errorf("no %q in\n%s", want, shown)
	}
}

// TestScreenOfAudit compares the screen with the document: counts first, reasons by severity, values ascending, and of
// a long list the first ones.
func TestScreenOfAudit(t *testing.T) {
	heading := regexp.MustCompile(`^  (\w+) \((\d+)\): `)
	more := regexp.MustCompile(`^    and (\d+) more \(-o wide shows all\)$`)
	for cluster := range bitmaps {
		file := etcdtest.Fixture(cluster, "drift.db.gz")
		r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
		values := map[string][]string{}
		for _, f := range r.Findings {
			values[f.Reason] = append(values[f.Reason], f.Value)
		}
		for _, l := range r.Leaks {
			values[runbook.Leak] = append(values[runbook.Leak], l.Value)
		}
		for _, format := range []string{"table", "wide"} {
			_, shown, _ := run(t, "audit", "--etcd-snapshot", file, "-o", format)
			by := r.Summary.BySeverity
			counts := fmt.Sprintf("%6d  break traffic now\n%6d  may be handed out twice\n%6d  ranges are full or nearly full\n%6d  are wasted\n%d findings, %d leaks, %d Services\n",
				by.BreaksTraffic.Found, by.DuplicateRisk.Found, 0, by.Wasted.Found, len(r.Findings), len(r.Leaks), r.Summary.Services)
			about, rest, _ := strings.Cut(shown, "\n\n")
			if !strings.HasPrefix(rest, counts) {
				t.Errorf("the counts are not first:\n%s", shown)
			}
			if about = strings.ReplaceAll(about, "\n", " "); !strings.HasPrefix(about, fmt.Sprintf("etcd snapshot %s of cluster %s, revision %d, 2026-", file, r.Source.Cluster.UID, r.Source.Revision)) || !strings.HasSuffix(about, " UTC, rangekeeper "+version.Number) {
				t.Errorf("the source is %q", about)
			}
			if !strings.HasSuffix(shown, "\nRunbook: https://github.com/rangekeeper/rangekeeper/blob/main/docs/runbook.md#clusteripalreadyallocated\n") {
				t.Errorf("the end:\n%s", shown)
			}
			rows, reason, hidden := map[string][]string{}, "", map[string]int{}
			claimants := 0
			var reasons []string
			for line := range strings.Lines(shown) {
				line = strings.TrimSuffix(line, "\n")
				if strings.HasPrefix(line, "    A stock kube-apiserver frees ") { // the last line of its list, wrapped or not
					reason = ""
				} else if strings.HasPrefix(line, "      ") && reason != "" {
					claimants++
					if value := strings.Fields(line)[0]; value != rows[reason][len(rows[reason])-1] {
						t.Errorf("%s: a claimant of %s below %v", cluster, value, rows[reason])
					}
				} else if m := heading.FindStringSubmatch(line); m != nil {
					reason = m[1]
					reasons = append(reasons, reason)
					if n, _ := strconv.Atoi(m[2]); n != len(values[reason]) {
						t.Errorf("%s: %s", cluster, line)
					}
				} else if m := more.FindStringSubmatch(line); m != nil {
					hidden[reason], _ = strconv.Atoi(m[1])
				} else if strings.HasPrefix(line, "    ") && reason != "" {
					rows[reason] = append(rows[reason], strings.Fields(line)[0])
				} else {
					reason = ""
				}
			}
			if claimants < 4 {
				t.Errorf("%s: %d rows of claimants", cluster, claimants)
			}
			if len(reasons) != len(values) || !slices.IsSortedFunc(reasons, func(a, b string) int {
				return slices.Index(runbook.Names(), a) - slices.Index(runbook.Names(), b)
			}) {
				t.Errorf("%s: reasons %v", cluster, reasons)
			}
			for reason, all := range values {
				if len(rows[reason])+hidden[reason] != len(all) || !slices.Equal(rows[reason], all[:len(rows[reason])]) {
					t.Errorf("%s: %s %v and %d more of %v", cluster, reason, rows[reason], hidden[reason], all)
				}
				if format == "wide" && hidden[reason] > 0 || format == "table" && len(rows[reason]) > 5+1 {
					t.Errorf("%s, %s: %d of %s are shown", cluster, format, len(rows[reason]), reason)
				}
			}
		}
	}
	_, shown, _ := run(t, "audit", "--etcd-snapshot", etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"))
	if !strings.Contains(shown, "\nok: nothing found in 1081 Services\n") || strings.Contains(shown, "Next") {
		t.Errorf("%s", shown)
	}
}

// TestNextCommands runs the commands that the screens end with, one after another.
func TestNextCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	file, err := filepath.Abs("a file.db.gz") // a shell needs it in quotes
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := os.ReadFile(etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	if err == nil {
		err = os.WriteFile(file, snapshot, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := func(args ...string) (commands []string) {
		t.Helper()
		_, shown, _ := run(t, args...)
		_, steps, _ := strings.Cut(shown, "\nNext\n")
		for line := range strings.Lines(strings.ReplaceAll(steps, "\\\n", "")) {
			if line, ok := strings.CutPrefix(line, "  rangekeeper "); ok {
				commands = append(commands, strings.Join(strings.Fields(line), " "))
			}
		}
		return commands
	}
	quotedFile := "'" + file + "'"
	want := []string{
		"explain fd00:10:96::608c --prefix /registry --etcd-snapshot " + quotedFile,
		"explain ClusterIPAlreadyAllocated",
		"repair --to-file repaired.db --prefix /registry --etcd-snapshot " + quotedFile,
	}
	same := func(got []string) {
		t.Helper()
		for i := range got { // flags come in the order of their names
			got[i] = strings.Replace(got[i], "--etcd-snapshot "+quotedFile+" --prefix /registry", "--prefix /registry --etcd-snapshot "+quotedFile, 1)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
	same(next("audit", "--etcd-snapshot", file, "--prefix", "/registry"))
	want = []string{want[2], want[0], want[1]}
	same(next("repair", "--etcd-snapshot", file, "--prefix", "/registry"))
	want = append([]string{"audit --etcd-snapshot repaired.db"}, want[1:]...)
	same(next("repair", "--etcd-snapshot", file, "--prefix", "/registry", "--to-file", "repaired.db"))
	want = []string{
		"explain fd00:10:96::608c --etcd-snapshot repaired.db", "explain ClusterIPAlreadyAllocated",
	}
	same(next("audit", "--etcd-snapshot", "repaired.db"))
}

// TestWidthOfFaultyObjects has objects that no API server accepts, and one that cannot be decoded, on a screen of 80
// columns.
func TestWidthOfFaultyObjects(t *testing.T) {
	const name, parent = "0000:0000:0000:0000:0000:ffff:010.037.000.250", `"parentRef":{"resource":"services","namespace":"a","name":"b"}`
	file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{
		"/registry/ipaddresses/" + name:                                   ipAddressObject(t, name, parent),
		"/registry/ipaddresses/10.37.0.251":                               ipAddressObject(t, "10.37.0.251", ""),
		"/registry/services/specs/" + strings.Repeat("n", 20) + "/broken": []byte("no object of Kubernetes"),
	})
	_, shown, _ := run(t, "audit", "--etcd-snapshot", file)
	if !strings.Contains(shown, "IPAddressNotCanonical (1)") || !strings.Contains(shown, "IPAddressWithoutParent (1)") || !strings.Contains(shown, "Cannot be read: 1") {
		t.Errorf("%s", shown)
	}
	for line := range strings.Lines(shown) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(line, file) && !isPage(line) {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// TestNextWithoutPassword looks for a password in the commands that come next.
func TestNextWithoutPassword(t *testing.T) {
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	endpoints := strings.Join(e.Endpoints(), ",")
	for _, credentials := range [][]string{{"--user", "root:hidden"}, {"--user", "root", "--password", "hidden"}} {
		_, shown, stderr := run(t, append([]string{"audit", "--endpoints", endpoints}, credentials...)...)
		if !strings.Contains(strings.Join(strings.Fields(shown), " "), "--endpoints "+endpoints+" --user root") || strings.Contains(shown, "hidden") {
			t.Errorf("%v: %s%s", credentials, shown, stderr)
		}
	}
}

// TestClaimsTwice has one Service claim a port twice: no other Service has to change it.
func TestClaimsTwice(t *testing.T) {
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"))
	const service = `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"claims","name":"twice"},"spec":{"type":"NodePort",` +
		`"clusterIP":"10.0.77.78","clusterIPs":["10.0.77.78"],"ports":[{"port":80,"nodePort":32078},{"port":81,"nodePort":32078}]}}`
	if _, err := e.Client().Put(t.Context(), "/registry/services/specs/claims/twice", service); err != nil {
		t.Fatal(err)
	}
	snapshot := etcdtest.Save(t, e.Client())
	for command, want := range map[string]string{
		"audit":         "32078 claims/twice unknown age claims it twice: change one field",
		"explain 32078": "the Service claims it twice, which its owner must change",
	} {
		_, shown, _ := run(t, append(strings.Fields(command), "--etcd-snapshot", snapshot)...)
		if words := strings.Join(strings.Fields(shown), " "); !strings.Contains(words, want) || strings.Contains(words, "keeps it") && command == "audit" {
			t.Errorf("%s:\n%s", command, shown)
		}
	}
}

// TestClaimants has Services of different ages share values. The names are not in the order of age.
func TestClaimants(t *testing.T) {
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"))
	const address, port = "10.0.77.77", "32077"
	ages := map[string]string{"b-oldest": "2021-01-02T03:04:05Z", "c-older": "2022-01-02T03:04:05Z", "a-young": "2024-01-02T03:04:05Z"}
	for name, created := range ages {
		service := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"claims","name":%q,"creationTimestamp":%q},`+
			`"spec":{"type":"NodePort","clusterIP":%q,"clusterIPs":[%[3]q],"ports":[{"port":80,"nodePort":%s}]}}`, name, created, address, port)
		if _, err := e.Client().Put(t.Context(), "/registry/services/specs/claims/"+name, service); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := etcdtest.Save(t, e.Client())
	duplicates := 0
	for _, f := range runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", snapshot).Findings {
		if len(f.Claimants) == 0 {
			continue
		}
		duplicates++
		var names []string
		for _, c := range f.Claimants {
			names = append(names, c.Name)
			if c.CreationTimestamp != ages[c.Name] || c.Keeps != (c.Name == "b-oldest") {
				t.Errorf("%+v", c)
			}
		}
		if f.Name == "b-oldest" || !slices.Equal(names, []string{"b-oldest", "c-older", "a-young"}) {
			t.Errorf("%s: %v", f.Name, names)
		}
	}
	if duplicates != 4 {
		t.Errorf("%d findings of two Services with two values each", duplicates)
	}
	for _, format := range []string{"table", "wide"} {
		_, shown, _ := run(t, "audit", "--etcd-snapshot", snapshot, "-o", format)
		lines := strings.Split(strings.Join(strings.Fields(strings.ReplaceAll(shown, "\n", " | ")), " "), " | ")
		for value, others := range map[string]string{address: "recreate", port: "change or recreate"} {
			first := slices.Index(lines, value+" claims/b-oldest "+ages["b-oldest"]+" keeps it")
			if first < 0 || lines[first+1] != value+" claims/c-older "+ages["c-older"]+" "+others || lines[first+2] != value+" claims/a-young "+ages["a-young"]+" "+others {
				t.Errorf("%s of %s:\n%s", format, value, shown)
			}
		}
	}
	for reason, value := range map[string]string{"ClusterIPAlreadyAllocated": address, "PortAlreadyAllocated": port} {
		warning := "A stock kube-apiserver frees the value of a duplicate that goes: first see rangekeeper explain " + reason
		for _, args := range [][]string{{"audit"}, {"explain", value}, {"explain", reason}} {
			_, shown, _ := run(t, append(args, "--etcd-snapshot", snapshot)...)
			words := strings.Join(strings.Fields(shown), " ")
			if args[0] == "audit" && !strings.Contains(words, warning) || args[0] == "explain" && !strings.Contains(words, "and may hand it out again") {
				t.Errorf("%v:\n%s", args, shown)
			}
		}
	}
	_, document, _ := run(t, "audit", "--etcd-snapshot", snapshot, "-o", "yaml")
	_, page, _ := run(t, "audit", "--etcd-snapshot", snapshot, "-o", "html")
	for name, created := range ages {
		if !strings.Contains(document, `creationTimestamp: "`+created+`"`) || !strings.Contains(page, "claims/"+name+", "+created+", ") {
			t.Errorf("%s is not in YAML or HTML", name)
		}
	}
}
