package controller

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// eventRecorder records the Events of one repair controller. Package events of client-go would link the clients of all
// kinds; package record knows no actions.
type eventRecorder struct {
	record.EventRecorder
}

func newEventRecorder(broadcaster record.EventBroadcaster, scheme *runtime.Scheme, controller string) eventRecorder {
	host, _ := os.Hostname() // which tells servers apart for a reader
	return eventRecorder{broadcaster.NewRecorder(scheme, corev1.EventSource{Component: controller, Host: host})}
}

// actionAnnotation carries the action from a recorder to the sink, which removes it.
const actionAnnotation = "action"

func (r eventRecorder) Eventf(regarding, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.AnnotatedEventf(regarding, map[string]string{actionAnnotation: action}, eventType, reason, note, args...)
}

// eventSink writes Events.
type eventSink struct{ client *client }

var _ record.EventSink = eventSink{}

func (s eventSink) Create(event *corev1.Event) (*corev1.Event, error) {
	event = withAction(event)
	return s.client.eventsOf(event.Namespace).Create(context.Background(), event, metav1.CreateOptions{})
}

func (s eventSink) Update(event *corev1.Event) (*corev1.Event, error) {
	event = withAction(event)
	return s.client.eventsOf(event.Namespace).Update(context.Background(), event, metav1.UpdateOptions{})
}

func (s eventSink) Patch(old *corev1.Event, data []byte) (*corev1.Event, error) {
	return s.client.eventsOf(old.Namespace).Patch(context.Background(), old.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}

func withAction(event *corev1.Event) *corev1.Event {
	event = event.DeepCopy()
	event.Action = event.Annotations[actionAnnotation]
	event.Annotations = nil
	return event
}
