package apiservertest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/csv"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// User may log in by a token. A ServiceAccount is one as well, by its full name and
// its groups.
type User struct {
	Name   string
	Groups []string
}

// Admin may do everything.
const Admin = "admin"

// The files of a server's directory.
const (
	certificateFile = "apiserver.crt" // by this name it makes its own
	keyFile         = "service-accounts.key"
	tokenFile       = "tokens.csv"
)

// token is the same at all servers, so that each serves the users of a cluster.
func token(user string) string { return "token-of-" + user }

// restConfig fails before the server has made its certificate.
func (s *Server) restConfig(user string) (*rest.Config, error) {
	certificate, err := os.ReadFile(s.file(certificateFile))
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            s.url(),
		BearerToken:     token(user),
		TLSClientConfig: rest.TLSClientConfig{CAData: certificate},
		QPS:             -1, // a test waits for the server and not for itself
	}, nil
}

// RESTConfig is how a user reaches the server. Its client has no limit of requests.
func (s *Server) RESTConfig(user string) *rest.Config {
	s.t.Helper()
	config, err := s.restConfig(user)
	if err != nil {
		s.t.Fatal(err)
	}
	return config
}

// Kubeconfig writes a kubeconfig for a user and returns its path.
func (s *Server) Kubeconfig(user string) string {
	s.t.Helper()
	config := s.RESTConfig(user)
	const name = "test"
	path := s.file("kubeconfig-" + strings.ReplaceAll(user, ":", "-"))
	err := clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{name: {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: config.BearerToken}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *Server) writeTokens() {
	s.t.Helper()
	f, err := os.OpenFile(s.file(tokenFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	w := csv.NewWriter(f)
	users := append([]User{{Name: Admin, Groups: []string{"system:masters"}}}, s.config.Users...)
	for i, u := range users {
		line := []string{token(u.Name), u.Name, fmt.Sprint(i)}
		if len(u.Groups) > 0 { // an empty field would be a group with an empty name
			line = append(line, strings.Join(u.Groups, ","))
		}
		w.Write(line) // Error reports a failure
	}
	if w.Flush(); w.Error() != nil {
		s.t.Fatal(w.Error())
	}
}

// serviceAccountKey signs the tokens of ServiceAccounts at all servers, as those of a
// cluster do.
var serviceAccountKey = sync.OnceValues(func() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
})

func (s *Server) writeKey() {
	s.t.Helper()
	key, err := serviceAccountKey()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.file(keyFile), key, 0o600); err != nil {
		s.t.Fatal(err)
	}
}
