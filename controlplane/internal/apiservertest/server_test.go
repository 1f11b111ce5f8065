package apiservertest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// eachVersion runs a test with the servers of all releases.
func eachVersion(t *testing.T, test func(t *testing.T, v apiservertest.Version)) {
	for _, v := range apiservertest.Versions() {
		t.Run(string(v), func(t *testing.T) { test(t, v) })
	}
}

func newClient(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestUsers finds the release that was asked for behind the server's own certificate,
// and RBAC in force.
func TestUsers(t *testing.T) {
	eachVersion(t, func(t *testing.T, v apiservertest.Version) {
		const reader, nobody = "system:serviceaccount:shop:reader", "nobody"
		s := apiservertest.Start(t, apiservertest.Config{
			Version: v, Etcd: etcdtest.Start(t, "").Endpoints(),
			Users: []apiservertest.User{{Name: reader, Groups: []string{"readers", "others"}}, {Name: nobody}},
		})
		admin := newClient(t, s.RESTConfig(apiservertest.Admin))
		version, err := admin.Discovery().ServerVersion()
		if err != nil || version.GitVersion != "v"+string(v) {
			t.Errorf("%v, %v", version, err)
		}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "readers"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list"}},
		}}
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "readers"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "readers"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}},
		}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		list := func(config *rest.Config) error {
			_, err := newClient(t, config).CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
			return err
		}
		kubeconfig, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig(reader))
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // the server has to see the binding
			if err = list(kubeconfig); err == nil || time.Now().After(deadline) {
				break
			}
		}
		if err != nil {
			t.Errorf("%s: %v", reader, err)
		}
		if err := list(s.RESTConfig(nobody)); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", nobody, err)
		}
		if err := list(s.RESTConfig("stranger")); !apierrors.IsUnauthorized(err) {
			t.Errorf("without a token of its own: %v", err)
		}
	})
}

// TestServersOfACluster runs two servers on one etcd, kills one and stops the other:
// what one has written the other serves, and so it is after a restart.
func TestServersOfACluster(t *testing.T) {
	eachVersion(t, func(t *testing.T, v apiservertest.Version) {
		config := apiservertest.Config{Version: v, Etcd: etcdtest.Start(t, "").Endpoints()}
		a := apiservertest.Start(t, config)
		config.AdvertiseAddress = "192.0.2.2"
		b := apiservertest.Start(t, config)
		atA, atB := newClient(t, a.RESTConfig(apiservertest.Admin)), newClient(t, b.RESTConfig(apiservertest.Admin))
		a.Initialise()
		b.Initialise() // finds all there

		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "account"}}
		if _, err := atA.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		token, err := atA.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "account", new(authenticationv1.TokenRequest), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}
		review, err = atB.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil || review.Status.User.Username != "system:serviceaccount:default:account" {
			t.Errorf("the one's token at the other: %+v, %v", review, err)
		}

		a.Kill()
		if _, err := atA.Discovery().ServerVersion(); err == nil {
			t.Error("the killed server answers")
		}
		if _, err := atB.CoreV1().ServiceAccounts("default").Get(t.Context(), "account", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		b.Stop()
		if _, err := atB.Discovery().ServerVersion(); err == nil {
			t.Error("the stopped server answers")
		}
		for s, client := range map[*apiservertest.Server]*kubernetes.Clientset{a: atA, b: atB} {
			s.Restart()
			if _, err := client.CoreV1().ServiceAccounts("default").Get(t.Context(), "account", metav1.GetOptions{}); err != nil {
				t.Errorf("at port %d after a restart: %v", s.Port(), err)
			}
		}
	})
}

// inChild runs a test once more in a process of its own, which a variable reports to
// the test.
func inChild(t *testing.T, variable, value string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.v", "-test.run=^"+t.Name()+"$")
	// What is killed leaves its files behind.
	c.Env = append(os.Environ(), variable+"="+value, "TMPDIR="+t.TempDir())
	return c
}

// TestServerEndsWithTheTest kills a test that has started a server.
func TestServerEndsWithTheTest(t *testing.T) {
	const variable = "RANGEKEEPER_TEST_PARENT"
	if os.Getenv(variable) != "" {
		s := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcdtest.Start(t, "").Endpoints()})
		fmt.Printf("\nport %d\n", s.Port())
		time.Sleep(time.Hour)
	}
	apiservertest.Program(t, apiservertest.Config{Version: apiservertest.Newest})
	parent := inChild(t, variable, "yes")
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var address string
	for lines := bufio.NewScanner(stdout); address == "" && lines.Scan(); {
		if port, found := strings.CutPrefix(lines.Text(), "port "); found {
			address = net.JoinHostPort("127.0.0.1", port)
		}
	}
	answers := func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		c.Close()
		return true
	}
	if !answers() {
		t.Error("the server does not run")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	parent.Wait() // its error says that it was killed
	for deadline := time.Now().Add(patience); answers(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server outlives the test")
		}
	}
}

// TestNotBuilt starts a server of a release that nobody builds.
func TestNotBuilt(t *testing.T) {
	const variable = "RANGEKEEPER_TEST_NOT_BUILT"
	if os.Getenv(variable) != "" {
		apiservertest.Start(t, apiservertest.Config{Version: "0.0.0", Etcd: []string{"http://127.0.0.1:1"}})
	}
	for required, verdict := range map[string]string{"1.0.0": "--- SKIP", "1.0.0 0.0.0": "--- FAIL"} {
		child := inChild(t, variable, "yes")
		child.Env = append(child.Env, "RANGEKEEPER_REQUIRE_APISERVER="+required)
		out, err := child.CombinedOutput()
		if (err != nil) != (verdict == "--- FAIL") || !strings.Contains(string(out), verdict) || !strings.Contains(string(out), "make apiservers") {
			t.Errorf("RANGEKEEPER_REQUIRE_APISERVER=%q: %v\n%s", required, err, out)
		}
	}
}
