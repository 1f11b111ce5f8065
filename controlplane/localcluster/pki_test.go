package localcluster

import (
	"bytes"
	"crypto/x509"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var loopback = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)}

// TestCertificates keeps what is good, and replaces what is missing, ends soon or is for
// other addresses; at no time is there a chain that a client would refuse.
func TestCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	now := time.Now()
	const day = 24 * time.Hour
	var before *pki
	for _, c := range []struct {
		name      string
		change    func()
		addresses []net.IP
		// replaced says which are new: authority, server, admin.
		replaced [3]bool
	}{
		{"first", nil, loopback, [3]bool{true, true, true}},
		{"again", nil, loopback, [3]bool{}},
		{"one address less", nil, loopback[:1], [3]bool{}},
		{"one address more", nil, append(loopback, net.IPv4(127, 0, 0, 3)), [3]bool{false, true, false}},
		{"after 11 months", func() { now = now.Add(334 * day) }, loopback, [3]bool{}},
		{"shortly before the end", func() { now = now.Add(5 * day) }, loopback, [3]bool{false, true, true}},
		{"a certificate is missing", func() { remove(t, dir, "admin.crt") }, loopback, [3]bool{false, false, true}},
		{"a key is missing", func() { remove(t, dir, "apiserver.key") }, loopback, [3]bool{false, true, false}},
		{"the authority's key is missing", func() { remove(t, dir, "ca.key") }, loopback, [3]bool{true, true, true}},
		{"the authority ends in a year", func() { now = now.Add(9 * 365 * day) }, loopback, [3]bool{true, true, true}},
		{"the clock goes back", func() { now = now.Add(-365 * day) }, loopback, [3]bool{true, true, true}},
	} {
		if c.change != nil {
			c.change()
		}
		p, err := openPKI(dir, c.addresses, now)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if before != nil {
			for i, pair := range [][2]*keyPair{{before.authority, p.authority}, {before.server, p.server}, {before.admin, p.admin}} {
				if got := !bytes.Equal(pair[0].certPEM, pair[1].certPEM); got != c.replaced[i] || got == bytes.Equal(pair[0].keyPEM, pair[1].keyPEM) {
					t.Errorf("%s: %s replaced: %v", c.name, pair[1].certFile, got)
				}
			}
		}
		before = p
		roots := x509.NewCertPool()
		roots.AddCert(p.authority.cert)
		verify := func(pair *keyPair, name string, usage x509.ExtKeyUsage) {
			if _, err := pair.cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
				t.Errorf("%s: %s: %v", c.name, pair.certFile, err)
			}
		}
		verify(p.admin, "", x509.ExtKeyUsageClientAuth)
		verify(p.server, "kubernetes.default.svc", x509.ExtKeyUsageServerAuth)
		for _, address := range c.addresses {
			verify(p.server, address.String(), x509.ExtKeyUsageServerAuth)
		}
		if err := p.server.cert.VerifyHostname("192.0.2.1"); err == nil {
			t.Errorf("%s: it is good for any address", c.name)
		}
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// TestServiceAccountKeyStays looks for the one key that is never replaced: tokens that are
// around were signed by it.
func TestServiceAccountKeyStays(t *testing.T) {
	dir := t.TempDir()
	var before []byte
	for i := range 3 {
		p, err := openPKI(dir, loopback, time.Now().Add(time.Duration(i)*5*365*24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		key, err := os.ReadFile(p.serviceAccountKey)
		if err != nil || before != nil && !bytes.Equal(before, key) {
			t.Errorf("time %d: %v", i, err)
		}
		before = key
	}
}

// TestDamagedCertificates cuts each file in half. What is damaged is named, and stays.
func TestDamagedCertificates(t *testing.T) {
	dir := t.TempDir()
	if _, err := openPKI(dir, loopback, time.Now()); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 7 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		half := whole[:len(whole)/2]
		if err := os.WriteFile(path, half, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openPKI(dir, loopback, time.Now()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, half) {
			t.Errorf("%s was changed, %v", path, err)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// private fails for all below a directory that others can read.
func private(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files < 2 {
		t.Errorf("%s: %d files, %v", dir, files, err)
	}
}

func TestKeysArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if _, err := openPKI(dir, loopback, time.Now()); err != nil {
		t.Fatal(err)
	}
	private(t, dir)
}
