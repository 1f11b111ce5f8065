package cli

import (
	"bytes"
	"fmt"
	"image/png"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// browser runs a headless browser, which .ci/setup.sh installs.
func browser(t *testing.T, args ...string) []byte {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no browser: run .ci/setup.sh")
	}
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + t.TempDir(),
	}, args...)
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(t.Context(), path, args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr.String())
	}
	return stdout.Bytes()
}

// shownRows returns the first two columns of the rows of findings that a page shows, after its script has run.
func shownRows(t *testing.T, page string) (rows []string, shown string) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(browser(t, "--dump-dom", page)))
	if err != nil {
		t.Fatal(err)
	}
	isHidden := func(node *html.Node) bool {
		return slices.ContainsFunc(node.Attr, func(a html.Attribute) bool { return a.Key == "hidden" })
	}
	text := func(node *html.Node) string {
		var b strings.Builder
		for child := range node.Descendants() {
			if child.Type == html.TextNode {
				b.WriteString(child.Data)
			}
		}
		return b.String()
	}
	for node := range root.Descendants() {
		switch {
		case node.Type != html.ElementNode:
		case node.Data == "output":
			shown = text(node)
		case node.Data == "tbody" && !isHidden(node.Parent.Parent):
			for row := range node.ChildNodes() {
				if row.Type == html.ElementNode && !isHidden(row) {
					rows = append(rows, text(row.FirstChild)+" "+text(row.FirstChild.NextSibling))
				}
			}
		}
	}
	return rows, shown
}

// findBroken has the page name the words of its findings that go over more than one line: anything in the first three
// columns, and words without a hyphen in messages.
const findBroken = `<script>
const broken = [];
for (const cell of document.querySelectorAll("th, td")) {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node; node = walker.nextNode();) {
    const words = cell.cellIndex < 3 ? [[node.data, 0]] : [...node.data.matchAll(/[^\s-]+/g)].map(m => [m[0], m.index]);
    for (const [word, at] of words) {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + word.length);
      if (new Set([...range.getClientRects()].map(line => line.top)).size > 1) broken.push(word);
    }
  }
}
document.body.innerHTML = "";
for (const word of broken) document.body.append(Object.assign(document.createElement("output"), {textContent: word}));
</script>`

// brokenWords returns the words of a page that are broken in a window of 1200 pixels.
func brokenWords(t *testing.T, page string) (broken []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(strings.Replace(page, "</body>", findBroken+"</body>", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(browser(t, "--window-size=1200,800", "--dump-dom", "file://"+file)))
	if err != nil {
		t.Fatal(err)
	}
	for node := range root.Descendants() {
		if node.Type == html.ElementNode && node.Data == "output" {
			broken = append(broken, node.FirstChild.Data)
		}
	}
	return broken
}

// TestPageInBrowser opens the page of a damaged cluster, with and without a filter, in light and in dark.
func TestPageInBrowser(t *testing.T) {
	t.Parallel() // beside those that wait
	fixture := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", fixture)
	_, page, _ := run(t, "audit", "--etcd-snapshot", fixture, "-o", "html")
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	address := "file://" + file
	all, shown := shownRows(t, address)
	var want []string
	for _, f := range r.Findings {
		object := f.Namespace + "/" + f.Name
		if f.Namespace == "" {
			object = strings.TrimSuffix(f.Kind+" "+f.Name, " "+f.Value)
		}
		want = append(want, f.Value+" "+object)
	}
	for _, l := range r.Leaks {
		want = append(want, l.Value+" ")
	}
	slices.Sort(want)
	if slices.Sort(all); !slices.Equal(all, want) {
		t.Errorf("rows %q\nwant %q", all, want)
	}
	if want := fmt.Sprintf("%d of %d", len(want), len(want)); shown != want {
		t.Errorf("shown: %q, want %q", shown, want)
	}
	if broken := brokenWords(t, page); len(broken) > 0 {
		t.Errorf("%d words are broken: %q", len(broken), broken[:min(len(broken), 10)])
	}
	rows, shown := shownRows(t, address+"#"+url.PathEscape("PORTalready svc-560"))
	if want := []string{"31634 default/dup-560", "32094 default/dup-560"}; !slices.Equal(rows, want) || shown != fmt.Sprintf("2 of %d", len(all)) {
		t.Errorf("filtered %q, %q", rows, shown)
	}
	for name, scheme := range map[string]struct {
		setting string
		light   bool
	}{"light": {"1", true}, "dark": {"0", false}} {
		picture := filepath.Join(t.TempDir(), name+".png")
		browser(t, "--blink-settings=preferredColorScheme="+scheme.setting, "--window-size=1000,600", "--screenshot="+picture, address)
		b, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		image, err := png.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		red, green, blue, _ := image.At(1, 1).RGBA()
		if brightness := (red + green + blue) / 3 >> 8; (brightness > 200) != scheme.light || (brightness < 60) == scheme.light {
			t.Errorf("%s: the background has brightness %d", name, brightness)
		}
	}
}

// TestPageText has the source, the time, next steps and tooltips, and nothing from elsewhere.
func TestPageText(t *testing.T) {
	fixture := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	report := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", fixture)
	_, text, _ := run(t, "audit", "--etcd-snapshot", fixture, "-o", "html")
	page := html.UnescapeString(text)
	for _, want := range []string{
		"<time>2026-01-02 03:04:05 UTC</time>", "<dd>" + fixture + " of cluster " + string(report.Source.Cluster.UID) + "</dd>", "etcd snapshot, revision ", "110 findings, 62 leaks, 1105 Services",
		"<pre>rangekeeper explain fd00:10:96::608c --etcd-snapshot " + fixture + "</pre>", "<pre>rangekeeper repair --to-file repaired.db --etcd-snapshot " + fixture + "</pre>",
		"\n10.96.0.1 default/kubernetes", ">default/dup-560, 20", ">default/svc-560, 20", ", keeps it<", ", change or recreate<", "10.96.0.1 to 10.96.4.0: ", "30000 to 30002: ", "fd00:10:96::1 to fd00:10:96::40: ",
		// Of a Service with a duplicate, the tooltip names all.
		"\n31634 ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, from := range []string{"src=", "href=", "@import", "url(", "http:", "https:"} {
		if strings.Contains(page, from) {
			t.Errorf("%s in the page", from)
		}
	}
}
