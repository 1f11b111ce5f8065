package localcluster

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = 30 * 24 * time.Hour
	// clockSkew is how much a client's clock may be behind.
	clockSkew = time.Hour
)

// serverNames are the host names of the API servers, from the outside and as the
// Service kubernetes.
var serverNames = []string{
	"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
}

// pki is the certificates and keys of a cluster, which it keeps in files.
type pki struct {
	authority, server, admin *keyPair
	serviceAccountKey        string
}

// keyPair is a certificate with its key, as PEM and in the files of these names.
type keyPair struct {
	certFile, keyFile string
	certPEM, keyPEM   []byte
	cert              *x509.Certificate
	key               crypto.PrivateKey
}

// openPKI reads the files of a directory. It creates the directory and missing files;
// certificates that end soon, or that do not fit any more, are
// replaced. A damaged file is an error.
func openPKI(dir string, addresses []net.IP, now time.Time) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &pki{serviceAccountKey: filepath.Join(dir, "sa.key")}
	if _, _, err := keyutil.LoadOrGenerateKeyFile(p.serviceAccountKey); err != nil {
		return nil, err
	}
	var err error
	if p.authority, err = openKeyPair(dir, "ca", nil, now, &x509.Certificate{
		Subject:  pkix.Name{CommonName: "rangekeeper"},
		NotAfter: now.Add(authorityLife), KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}); err != nil {
		return nil, err
	}
	if p.server, err = openKeyPair(dir, "apiserver", p.authority, now, &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, DNSNames: serverNames, IPAddresses: addresses,
		NotAfter: now.Add(leafLife), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}); err != nil {
		return nil, err
	}
	// Who is in this group may do everything, whatever RBAC says.
	p.admin, err = openKeyPair(dir, "admin", p.authority, now, &x509.Certificate{
		Subject:  pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}},
		NotAfter: now.Add(leafLife), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return p, err
}

// openKeyPair returns a certificate that is at least as good as the template: the one in
// the directory or else a new one, signed by the authority or, without one, by itself.
func openKeyPair(dir, name string, authority *keyPair, now time.Time, template *x509.Certificate) (*keyPair, error) {
	p := &keyPair{certFile: filepath.Join(dir, name+".crt"), keyFile: filepath.Join(dir, name+".key")}
	err := p.read()
	if err == nil && p.serves(authority, now, template) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	return p, p.issue(authority, now, template)
}

func (p *keyPair) read() (err error) {
	if p.certPEM, err = os.ReadFile(p.certFile); err != nil {
		return err
	}
	if p.keyPEM, err = os.ReadFile(p.keyFile); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(p.certPEM, p.keyPEM)
	if err != nil {
		return fmt.Errorf("%s, %s: %w; delete them and new ones are created", p.certFile, p.keyFile, err)
	}
	p.cert, p.key = pair.Leaf, pair.PrivateKey
	return nil
}

// serves reports whether a certificate can be used as one of the template could be.
func (p *keyPair) serves(authority *keyPair, now time.Time, template *x509.Certificate) bool {
	lasts := now.Add(renewBefore)
	if authority == nil {
		authority = p
		lasts = lasts.Add(leafLife) // it is not to end before those that it signs
	}
	if now.Before(p.cert.NotBefore) || lasts.After(p.cert.NotAfter) || p.cert.CheckSignatureFrom(authority.cert) != nil {
		return false
	}
	for _, name := range template.DNSNames {
		if p.cert.VerifyHostname(name) != nil {
			return false
		}
	}
	for _, address := range template.IPAddresses {
		if p.cert.VerifyHostname(address.String()) != nil {
			return false
		}
	}
	return true
}

func (p *keyPair) issue(authority *keyPair, now time.Time, template *x509.Certificate) (err error) {
	if p.keyPEM, err = keyutil.MakeEllipticPrivateKeyPEM(); err != nil {
		return err
	}
	if p.key, err = keyutil.ParsePrivateKeyPEM(p.keyPEM); err != nil {
		return err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return err
	}
	template.NotBefore = now.Add(-clockSkew)
	parent, signer := template, p.key
	if authority != nil {
		parent, signer = authority.cert, authority.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, p.key.(crypto.Signer).Public(), signer)
	if err != nil {
		return err
	}
	if p.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	if p.certPEM, err = cert.EncodeCertificates(p.cert); err != nil {
		return err
	}
	// Without a certificate both are recreated, so that a key never stays with that of another.
	if err := os.Remove(p.certFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeFile(p.keyFile, p.keyPEM); err != nil {
		return err
	}
	return writeFile(p.certFile, p.certPEM)
}

// writeFile writes a file that only its owner can read, all of it or nothing. A file with
// the same content stays as it is.
func writeFile(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing is left of it once it is renamed
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
