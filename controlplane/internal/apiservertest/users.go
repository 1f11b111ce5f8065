package apiservertest

import (
	"encoding/csv"
	"fmt"
	"os"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
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
	certificateFile = "apiserver.crt"
	keyFile         = "apiserver.key"
	tokenFile       = "tokens.csv"
)

// token is the same at all servers, so that each serves the users of a cluster.
func token(user string) string { return "token-of-" + user }

// RESTConfig is how a user reaches the server. Its client has no limit of requests.
func (s *Server) RESTConfig(user string) *rest.Config {
	return &rest.Config{
		Host:            s.url(),
		BearerToken:     token(user),
		TLSClientConfig: rest.TLSClientConfig{CAData: s.certificate},
		QPS:             -1, // a test waits for the server and not for itself
	}
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

// keyPair is the certificate and key of all servers, instead of one that each generates at its start. The key signs the
// tokens of ServiceAccounts, too.
var keyPair = sync.OnceValue(func() (pair struct {
	certificate, key []byte
	err              error
}) {
	pair.certificate, pair.key, pair.err = cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	return pair
})

func (s *Server) writeKeyPair() {
	s.t.Helper()
	pair := keyPair()
	err := pair.err
	if err == nil {
		err = os.WriteFile(s.file(certificateFile), pair.certificate, 0o600)
	}
	if err == nil {
		err = os.WriteFile(s.file(keyFile), pair.key, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.certificate = pair.certificate
}
