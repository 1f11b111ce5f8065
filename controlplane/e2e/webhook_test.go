package e2e

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// slowLabel selects the Services that a webhook sees.
const slowLabel = "example.com/slow"

const (
	// webhookTimeout is the longest that an API server allows.
	webhookTimeout = 30 * time.Second
	// webhookStart bounds the wait until a server calls a new webhook.
	webhookStart = patience
)

// startWebhook makes servers call a validating webhook when a Service with the slow label is created, changed or
// deleted. Validating webhooks come after the allocation, and after a deletion has read its Service. So nothing but the
// write is left to do while wait runs.
func startWebhook(t *testing.T, servers []*kubernetes.Clientset, wait func()) {
	t.Helper()
	var calls atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no AdmissionReview", http.StatusBadRequest)
			return
		}
		calls.Add(1)
		if !ptr.Deref(review.Request.DryRun, false) {
			wait()
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		review.Request = nil
		json.NewEncoder(w).Encode(review) // fails if the API server does not wait any more
	}))
	t.Cleanup(server.Close)
	_, err := servers[0].AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "slow"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "slow.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{
					admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete,
				},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
			}},
			ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{slowLabel: "true"}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To(int32(webhookTimeout / time.Second)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range servers {
		before := calls.Load()
		for end := time.Now().Add(webhookStart); calls.Load() == before; time.Sleep(50 * time.Millisecond) {
			_, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), slow("probe", clusterIP), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if time.Now().After(end) { // a server that has just started cannot allocate yet
				t.Fatalf("the server does not call the webhook: %v", err)
			}
		}
	}
}

// slow returns a Service that the webhook sees.
func slow(name string, spec corev1.ServiceSpec) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{slowLabel: "true"}}, Spec: spec}
}

// gate is a webhook's wait that ends for all when it is opened.
type gate struct {
	waiting atomic.Int64
	opened  chan struct{}
	open    func()
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	return g
}

func (g *gate) wait() {
	g.waiting.Add(1)
	<-g.opened
}

// await returns when so many requests wait.
func (g *gate) await(t *testing.T, requests int64) {
	t.Helper()
	for end := time.Now().Add(webhookTimeout); g.waiting.Load() < requests; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d requests wait in the webhook", g.waiting.Load(), requests)
		}
	}
}
