package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/controller"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// patience is for what takes a moment, on a machine that does much else.
const patience = 2 * time.Minute

// apply creates the objects of a file.
func apply(t *testing.T, client kubernetes.Interface, path string) (objects []runtime.Object) {
	t.Helper()
	for document := range strings.SplitSeq(string(must(os.ReadFile(path))), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		ctx, create := t.Context(), metav1.CreateOptions{}
		switch o := object.(type) {
		case *corev1.ServiceAccount:
			_, err = client.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, create)
		case *appsv1.DaemonSet:
			_, err = client.AppsV1().DaemonSets(o.Namespace).Create(ctx, o, create)
		case *rbacv1.ClusterRole:
			_, err = client.RbacV1().ClusterRoles().Create(ctx, o, create)
		case *rbacv1.ClusterRoleBinding:
			_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, o, create)
		case *rbacv1.Role:
			_, err = client.RbacV1().Roles(o.Namespace).Create(ctx, o, create)
		case *rbacv1.RoleBinding:
			_, err = client.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, create)
		default:
			t.Fatalf("%s: %T", path, o)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		objects = append(objects, object)
	}
	return objects
}

// awaitRights waits until the server grants an account what the roles among the objects allow: its authorizer learns of
// each by a watch.
func awaitRights(t *testing.T, client kubernetes.Interface, account string, objects []runtime.Object) {
	t.Helper()
	for _, object := range objects {
		var namespace string
		var rule rbacv1.PolicyRule
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			rule = o.Rules[0]
		case *rbacv1.Role:
			namespace, rule = o.Namespace, o.Rules[0]
		default:
			continue
		}
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: account,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
			},
		}}
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if must(client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})).Status.Allowed {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%+v is not granted to %s", rule, account)
			}
		}
	}
}

// awaitWrites waits until a key was written count times from now on.
func awaitWrites(t *testing.T, etcd *clientv3.Client, key string, count int) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	writes := 0
	for answer := range etcd.Watch(ctx, key, clientv3.WithFilterDelete()) {
		if err := answer.Err(); err != nil {
			return err
		}
		if writes += len(answer.Events); writes >= count {
			return nil
		}
	}
	return fmt.Errorf("%s was written %d times in %v", key, writes, patience)
}

// refusedRights asks a server for what the controller does not need.
func refusedRights(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	for what, err := range map[string]error{
		"get ns/web":              failure(client.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})),
		"list namespaces":         failure(client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})),
		"list services":           failure(client.CoreV1().Services("").List(ctx, metav1.ListOptions{})),
		"get secrets":             failure(client.CoreV1().Secrets("kube-system").Get(ctx, "x", metav1.GetOptions{})),
		"get endpoints of others": failure(client.CoreV1().Endpoints("default").Get(ctx, "web", metav1.GetOptions{})),
		"delete the Service":      client.CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s is not refused: %v", what, err)
		}
	}
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func failure[T any](_ T, err error) error { return err }

// TestLeastPrivilege runs the controller with a token of the ServiceAccount of deploy/base: on a damaged cluster it
// comes up, repairs, reports it in Events, and stops, and nothing is refused. What it does not need is.
func TestLeastPrivilege(t *testing.T) {
	t.Run("bitmaps", func(t *testing.T) {
		leastPrivilege(t, apiservertest.V1_32, etcdtest.DualStack, repaircontroller.ClusterIPs.Name, "ClusterIPAllocation")
	})
	t.Run("IPAddress objects", func(t *testing.T) {
		leastPrivilege(t, apiservertest.Newest, "kube-1.37-dual-stack", repaircontroller.NodePorts.Name, "PortAllocation")
	})
}

func leastPrivilege(t *testing.T, version apiservertest.Version, fixture, repairs, action string) {
	const account = "system:serviceaccount:kube-system:rangekeeper-controller"
	etcd := etcdtest.Start(t, etcdtest.Fixture(fixture, "drift.db.gz"))
	server := apiservertest.Start(t, apiservertest.Config{
		Version: version, Etcd: etcd.Endpoints(), ServiceClusterIPRange: "10.96.0.0/12,fd00:10:96::/108",
	})
	admin := must(kubernetes.NewForConfig(server.RESTConfig(apiservertest.Admin)))
	objects := apply(t, admin, "../../release/deploy/base/controller.yaml")
	if len(objects) != 6 {
		t.Errorf("%d objects", len(objects))
	}
	awaitRights(t, admin, account, objects)
	// As the Pod: with a token of the ServiceAccount.
	token := must(admin.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), "rangekeeper-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
	api := rest.AnonymousClientConfig(server.RESTConfig(apiservertest.Admin))
	api.BearerToken = token.Status.Token
	must(admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}))
	refusedRights(t, must(kubernetes.NewForConfig(api)))
	// Without all of its objects it has to make them.
	for _, key := range []string{"/registry/namespaces/kube-node-lease", "/registry/services/endpoints/default/kubernetes", "/registry/endpointslices/default/kubernetes"} {
		must(etcd.Client().Delete(t.Context(), key))
	}
	var log strings.Builder
	c := must(controller.New(controller.Config{
		API: api, Etcd: etcd.Client(),
		ClusterIPRanges: []rangekeeper.Range{must(rangekeeper.ParseCIDR("10.96.0.0/12")), must(rangekeeper.ParseCIDR("fd00:10:96::/108"))},
		NodePortRange:   must(rangekeeper.ParsePortRange("30000-32767")),
		Bootstrap: bootstrap.Config{
			AdvertiseAddress: "192.0.2.10", SecurePort: 6443,
			Periods: bootstrap.Periods{Endpoints: time.Second, LeaseTTL: 3 * time.Second, Namespaces: time.Second, Repairs: time.Minute},
		},
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(&log, nil)),
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	there := func() error {
		e, err := admin.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !strings.Contains(e.String(), "192.0.2.10") || !c.Started() {
			return errors.New("not yet")
		}
		if _, err := admin.CoreV1().Namespaces().Get(t.Context(), "kube-node-lease", metav1.GetOptions{}); err != nil {
			return err
		}
		events, err := admin.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range events.Items {
			e := &events.Items[i]
			if e.Action == action && e.ReportingController == repairs && len(e.Annotations) == 0 {
				return nil
			}
		}
		return fmt.Errorf("no Event of %s among %d", repairs, len(events.Items))
	}
	err := there()
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); err = there() {
		time.Sleep(50 * time.Millisecond)
	}
	if err == nil {
		err = awaitWrites(t, etcd.Client(), "/registry/masterleases/192.0.2.10", 2) // one in each turn
	}
	cancel()
	if err := errors.Join(err, <-ended); err != nil {
		t.Error(err)
	}
	if said := log.String(); strings.Contains(said, "forbidden") || strings.Contains(said, "refused") {
		t.Error(said)
	}
}
