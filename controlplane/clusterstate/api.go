package clusterstate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiclient"
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
)

// ErrAPIUnreachable: no API server answered.
var ErrAPIUnreachable = errors.New("the API server is not reachable")

// ErrAPINotReady: an API server answered that it cannot serve this now, as one that starts, or whose etcd is away.
var ErrAPINotReady = errors.New("the API server cannot serve this now")

// apiPageTimeout is for one page, which may have to wait for the server's priority and fairness.
const apiPageTimeout = 30 * time.Second

// APIOptions of a read over the Kubernetes API.
type APIOptions struct {
	// Unseen is what the caller knows of the ranges, which the API does not serve.
	Unseen Unseen
	// Upgrade asks for [State.Upgrade], too: for the version of the server, and get and list of
	// validatingwebhookconfigurations, mutatingwebhookconfigurations, and the admission policies with their bindings.
	Upgrade bool
	// Bootstrap asks for [State.Bootstrap], too: for get of the Endpoints and list of the EndpointSlices of the Service
	// kubernetes, and get of the system namespaces, as far as the user may.
	Bootstrap bool
	// Progress is as in [Options], in objects.
	Progress func(done, total int64)
}

// Unseen is what is known of the ranges of a cluster whose RangeAllocations the source cannot see.
type Unseen struct {
	// ClusterIPRanges are the ranges of ClusterIPs, one for each IP family; empty if they are not known. They have no
	// meaning where there are ServiceCIDR objects.
	ClusterIPRanges []string
	// NodePortRange is the range of node ports; empty if it is not known.
	NodePortRange string
	// Probed reports that RecordedNodePorts are those that an API server refuses though no Service uses them, by
	// [ProbeNodePorts].
	Probed            bool
	RecordedNodePorts []uint16
	// CheckedNodePort is the youngest node port of a Service at the time of the probe, 0 if there was none, and
	// Accepted says that the server accepted it for another Service: it has not seen the whole bitmap.
	CheckedNodePort uint16
	Accepted        bool
	// SeesAll says that the probed server sees all recorded node ports, as Rangekeeper is inside. A stock one does not
	// see those that other servers have allocated since its own last write of the bitmap.
	SeesAll bool
	// Metrics are an API server's counts of node ports; nil if they could not be read, or it has not set them yet, as
	// WhyNoMetrics says.
	Metrics      *NodePortCounts
	WhyNoMetrics string
	// NoBitmaps says that there are ServiceCIDR objects, and that the server writes no bitmaps of ClusterIPs beside
	// them: it serves resource.k8s.io/v1, as [State.UpgradedAt] of a state that has bitmaps.
	NoBitmaps bool
}

// NodePortCounts are an API server's metrics about node ports. Only an allocation or a release by this server sets
// them, and neither its start nor a repair nor a write of another server does. Their sum is the size of the server's
// range.
type NodePortCounts struct{ Allocated, Available uint64 }

// ReadAPI reads the state over the Kubernetes API, with get and list of services, ipaddresses and servicecidrs, and if
// the user has these rights with get of the Namespace kube-system and of /metrics: all lists at the resource version of
// the first answer, in pages. If that version is compacted before the last page, it starts over, at most twice.
// RangeAllocations are not served, so [State.Unseen] is set. On a server that does not serve IPAddress and ServiceCIDR
// objects these lists are empty. Annotations and managed fields are not kept.
//
// The error wraps [ErrAPIUnreachable] if no server answers, [ErrAPINotReady] if it cannot now, and names the verb and
// the resource that the user may not use.
//
// Where the server keeps Services in another etcd (--etcd-servers-overrides), resource versions of Services are not
// those of other objects. Then the others are read at one of their own, which was the newest one at the same instant.
func ReadAPI(ctx context.Context, config *rest.Config, o APIOptions) (*State, error) {
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	config.WarningHandler = rest.NoWarnings{} // such as that Endpoints are deprecated
	config.QPS = -1                           // one request after another
	client, err := apiclient.Plain(config)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		s, err := readAPI(ctx, client, o)
		if err == nil {
			return s, nil
		}
		if !apierrors.IsResourceExpired(err) || n == maxReads {
			return nil, err
		}
	}
}

func readAPI(ctx context.Context, client rest.Interface, o APIOptions) (*State, error) {
	r := &apiReader{ctx: ctx, client: client, progress: o.Progress, lists: 2} // of ServiceCIDRs there are few
	unseen := o.Unseen
	s := &State{Ranges: map[string]StoredRange{}, Unseen: &unseen}
	var server *corev1.Service
	var records recorder
	if err := r.findInstant(); err != nil {
		return nil, err
	}
	err := readList(r, servicesPath, func(l *servedList[corev1.Service, *corev1.Service]) (int, error) {
		return l.each(s, serviceKind, func(raw []byte) bool {
			if !readService(&records.fields, raw) || o.Bootstrap && isNameOf(serverService, records.fields.Namespace, records.fields.Name) {
				return false
			}
			s.Services.Add(records.fields.AppendTo(nil))
			return true
		}, func(one *corev1.Service) {
			if qualified(one) == serverService {
				one.SetAnnotations(nil)
				one.SetManagedFields(nil)
				server = one
			}
			s.Services.Add(servicebatch.FieldsOf(one).AppendTo(nil))
		})
	})
	r.lists = 1
	if err == nil {
		err = readServed(r, networking, "servicecidrs", func(l *networkingv1.ServiceCIDRList) (int, error) {
			return appendChecked(s, &s.ServiceCIDRs, l.Items, serviceCIDRKind)
		})
	}
	if err == nil {
		err = readServed(r, networking, "ipaddresses", func(l *servedList[networkingv1.IPAddress, *networkingv1.IPAddress]) (int, error) {
			return l.each(s, ipAddressKind, func(raw []byte) bool {
				if !readIPAddress(&records.address, raw) {
					return false
				}
				s.IPAddresses.Add(records.address.AppendTo(nil))
				return true
			}, func(one *networkingv1.IPAddress) { s.IPAddresses.Add(servicebatch.AddressFieldsOf(one).AppendTo(nil)) })
		})
	}
	if err == nil && s.ClusterIPRecords().HasObjects() {
		unseen.NoBitmaps = serves(ctx, client, "/apis/resource.k8s.io/v1")
	}
	if err == nil {
		unseen.Metrics, unseen.WhyNoMetrics = readMetrics(ctx, client)
		s.Identity.UID = readSystemUID(ctx, client)
	}
	if err == nil && o.Upgrade {
		s.Upgrade, err = readUpgrade(r, s)
	}
	if err == nil && o.Bootstrap {
		s.Bootstrap = readBootstrap(ctx, client)
		s.Bootstrap.Service = server
	}
	s.Revision = r.revision
	return s, err
}

// serves reports whether a server has a group and version of the API. Every user who has logged in may know that.
func serves(ctx context.Context, client rest.Interface, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, apiPageTimeout)
	defer cancel()
	return client.Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Error() == nil
}

// ReadRelease returns the release of an API server, such as v1.37.2.
func ReadRelease(ctx context.Context, config *rest.Config) (string, error) {
	client, err := apiclient.Plain(rest.CopyConfig(config))
	if err != nil {
		return "", err
	}
	return readRelease(ctx, client)
}

func readRelease(ctx context.Context, client rest.Interface) (string, error) {
	var about version.Info
	err := getJSON(ctx, client.Get().AbsPath("/version"), &about)
	if err == nil && about.GitVersion == "" {
		err = errors.New("/version names no release")
	}
	return about.GitVersion, err
}

// readUpgrade reads what the user may see of it.
func readUpgrade(r *apiReader, s *State) (*Upgrade, error) {
	u := new(Upgrade)
	u.Release, _ = readRelease(r.ctx, r.client)
	const path = "/apis/admissionregistration.k8s.io/v1/"
	err := readList(r, path+"validatingwebhookconfigurations", func(l *admissionv1.ValidatingWebhookConfigurationList) (int, error) {
		return appendChecked(s, &u.Validating, l.Items, validatingKind)
	})
	if err == nil {
		err = readList(r, path+"mutatingwebhookconfigurations", func(l *admissionv1.MutatingWebhookConfigurationList) (int, error) {
			return appendChecked(s, &u.Mutating, l.Items, mutatingKind)
		})
	}
	if u.Forbidden, err = forbidden(err); err == nil {
		u.PoliciesForbidden, err = forbidden(readPolicies(r, s, u))
	}
	return u, err
}

// readPolicies reads the admission policies and their bindings, which a server of an older release may not serve.
func readPolicies(r *apiReader, s *State, u *Upgrade) error {
	err := readServed(r, policies, "validatingadmissionpolicies", func(l *admissionv1.ValidatingAdmissionPolicyList) (int, error) {
		return appendChecked(s, &u.ValidatingPolicies, l.Items, validatingPolicyKind)
	})
	if err == nil {
		err = readServed(r, policies, "validatingadmissionpolicybindings", func(l *admissionv1.ValidatingAdmissionPolicyBindingList) (int, error) {
			return appendChecked(s, &u.ValidatingBindings, l.Items, validatingBindingKind)
		})
	}
	if err == nil {
		err = readServed(r, policies, "mutatingadmissionpolicies", func(l *admissionv1.MutatingAdmissionPolicyList) (int, error) {
			return appendChecked(s, &u.MutatingPolicies, l.Items, mutatingPolicyKind)
		})
	}
	if err == nil {
		err = readServed(r, policies, "mutatingadmissionpolicybindings", func(l *admissionv1.MutatingAdmissionPolicyBindingList) (int, error) {
			return appendChecked(s, &u.MutatingBindings, l.Items, mutatingBindingKind)
		})
	}
	return err
}

// forbidden returns the message of a server that refuses a right, and any other error.
func forbidden(err error) (string, error) {
	if status := apierrors.APIStatus(nil); apierrors.IsForbidden(err) && errors.As(err, &status) {
		return status.Status().Message, nil
	}
	return "", err
}

// readSystemUID returns the UID of the Namespace kube-system; "" if the user may not get it.
func readSystemUID(ctx context.Context, client rest.Interface) types.UID {
	uid, _ := getSystem(ctx, client)
	return uid
}

// readBootstrap reads what the user may see of it, as it is now: the objects are those of ten seconds. What cannot be
// read is unseen.
func readBootstrap(ctx context.Context, client rest.Interface) *Bootstrap {
	b := &Bootstrap{LeasesUnseen: "the Kubernetes API does not serve them", Endpoints: new(corev1.Endpoints)}
	err := getJSON(ctx, client.Get().AbsPath("/api/v1/namespaces/default/endpoints/"+KubernetesService), b.Endpoints)
	if apierrors.IsNotFound(err) {
		b.Endpoints, err = nil, nil
	}
	if err == nil {
		b.Slices, err = listSlices(ctx, client, "labelSelector", discoveryv1.LabelServiceName+"="+KubernetesService)
	}
	isOwn := func(slice discoveryv1.EndpointSlice) bool { return slice.Name == KubernetesService }
	if err == nil && !slices.ContainsFunc(b.Slices, isOwn) { // it may have lost its label
		var own []discoveryv1.EndpointSlice
		own, err = listSlices(ctx, client, "fieldSelector", "metadata.name="+KubernetesService)
		b.Slices = append(b.Slices, own...)
	}
	b.ObjectsUnseen = whyUnseen(err)
	for _, name := range systemNamespaces {
		switch err := getJSON(ctx, client.Get().AbsPath("/api/v1/namespaces/"+name), new(metav1.PartialObjectMetadata)); {
		case err == nil:
			b.Namespaces = append(b.Namespaces, name)
		case !apierrors.IsNotFound(err):
			b.NamespacesUnseen = whyUnseen(err)
		}
	}
	return b
}

// listSlices returns the EndpointSlices of the namespace default that a selector of this kind selects.
func listSlices(ctx context.Context, client rest.Interface, kind, selector string) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := getJSON(ctx, client.Get().AbsPath("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices").Param(kind, selector), &list)
	return list.Items, err
}

// whyUnseen returns the message of an error, "" for none.
func whyUnseen(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// getSystem returns the UID of the Namespace kube-system.
func getSystem(ctx context.Context, client rest.Interface) (types.UID, error) {
	var system metav1.PartialObjectMetadata
	err := getJSON(ctx, client.Get().AbsPath("/api/v1/namespaces/"+metav1.NamespaceSystem), &system)
	return system.UID, err
}

// getJSON performs a request for JSON within [apiPageTimeout], and decodes the answer.
func getJSON(ctx context.Context, request *rest.Request, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, apiPageTimeout)
	defer cancel()
	result := request.SetHeader("Accept", "application/json").Do(ctx)
	if err := result.Error(); err != nil { // unlike Raw's, it has the server's message
		return err
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// readMetrics returns the server's counts of node ports; nil and why if the user may not read them or the server has
// not set them.
func readMetrics(ctx context.Context, client rest.Interface) (*NodePortCounts, string) {
	ctx, cancel := context.WithTimeout(ctx, apiPageTimeout)
	defer cancel()
	text, err := client.Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").Stream(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return nil, "the user may not read /metrics of the API server, which count its ports; the ClusterRole of deploy/audit grants it"
	case err != nil:
		return nil, "/metrics of the API server, which count its ports, cannot be read: " + err.Error()
	}
	defer text.Close()
	counts := new(NodePortCounts)
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "kube_apiserver_nodeport_allocator_allocated_ports":
			counts.Allocated = uint64(number)
		case name == "kube_apiserver_nodeport_allocator_available_ports":
			counts.Available = uint64(number)
		}
	}
	switch err := lines.Err(); {
	case counts.Allocated+counts.Available > 0:
		return counts, ""
	case err != nil:
		return nil, "/metrics of the API server, which count its ports, cannot be read: " + err.Error()
	default:
		return nil, "the asked API server counts its ports in its metrics only after it has allocated or freed one"
	}
}

// appendChecked appends the objects of a page, and returns their number.
func appendChecked[T any, P object[T]](s *State, all *[]T, page []T, k kind) (int, error) {
	for i := range page {
		o := P(&page[i])
		if err := check(o, k); err != nil {
			s.addUnreadable(k, "", qualified(o), err)
			continue
		}
		// They take most of the memory, and an audit reads neither.
		o.SetAnnotations(nil)
		o.SetManagedFields(nil)
		*all = append(*all, page[i])
	}
	return len(page), nil
}

// servedList is a list of objects, of which those in protobuf are not decoded yet.
type servedList[T any, P object[T]] struct {
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
	raw             [][]byte
}

var listMessage = newMessage(nil, []int{1, 2}, nil)

// Unmarshal reads a list in protobuf.
func (l *servedList[T, P]) Unmarshal(b []byte) error {
	for {
		f, rest, ok := listMessage.next(b)
		switch {
		case !ok:
			return errors.New("not the protobuf of a list")
		case f.num == 0:
			return nil
		case f.num == 2:
			l.raw = append(l.raw, f.bytes)
		default:
			if err := l.ListMeta.Unmarshal(f.bytes); err != nil {
				return err
			}
		}
		b = rest
	}
}

// each calls fast with each object in protobuf, and where that is false, or for other objects, decoded with the object
// if it can be taken. It returns their number.
func (l *servedList[T, P]) each(s *State, k kind, fast func(raw []byte) bool, decoded func(*T)) (int, error) {
	take := func(o *T) {
		if err := check(P(o), k); err != nil {
			s.addUnreadable(k, "", qualified(P(o)), err)
			return
		}
		decoded(o)
	}
	for _, raw := range l.raw {
		if fast(raw) {
			continue
		}
		o := new(T)
		if err := P(o).Unmarshal(raw); err != nil {
			return 0, fmt.Errorf("damaged answer: %w", err)
		}
		take(o)
	}
	for i := range l.Items {
		take(&l.Items[i])
	}
	return len(l.raw) + len(l.Items), nil
}

const servicesPath = "/api/v1/services"

// apiReader reads lists at one resource version, or at two of one instant.
type apiReader struct {
	ctx      context.Context
	client   rest.Interface
	progress func(done, total int64)
	// version is the resource version of the first answer, revision the same as a number.
	version  string
	revision int64
	// others is the one of lists of other objects than Services if they are in another store, else empty.
	others string
	// done counts the objects that were read; lists is the number of lists from the present one on, all of which are
	// taken to have the same length.
	done, lists int64
}

// findInstant finds out whether Services are in the store of ServiceCIDRs. If so, the newest resource version of the
// latter lies between two of the former that were asked for before and after. If not, it takes one of each of an
// instant: that of Services was the same before and after.
func (r *apiReader) findInstant() error {
	before, err := r.newest(servicesPath)
	for range maxInstants {
		if err != nil {
			return err
		}
		others, err := r.newestServiceCIDRs()
		if err != nil || others == 0 {
			return err
		}
		after, err := r.newest(servicesPath)
		switch {
		case err != nil:
			return err
		case before <= others && others <= after:
			return nil
		case before == after:
			r.revision, r.version, r.others = before, strconv.FormatInt(before, 10), strconv.FormatInt(others, 10)
			return nil
		}
		before = after
	}
	return errNoInstant
}

// newestServiceCIDRs is newest of ServiceCIDRs; 0 if none are served.
func (r *apiReader) newestServiceCIDRs() (int64, error) {
	for _, version := range networking {
		if newest, err := r.newest("/apis/" + version + "/servicecidrs"); !apierrors.IsNotFound(err) {
			return newest, err
		}
	}
	return 0, nil
}

// newest returns the newest resource version of the store that has the objects of a list.
func (r *apiReader) newest(path string) (int64, error) {
	revision, err := r.fetch(r.client.Get().AbsPath(path).Param("limit", "1"), new(metav1.PartialObjectMetadataList))
	if err != nil {
		return 0, listError(path, err)
	}
	return revision, nil
}

// list is a pointer to a list type of k8s.io/api.
type list[T any] interface {
	*T
	metav1.ListInterface
	Unmarshal([]byte) error
}

// readServed reads a list in the first version that is served; all have the same fields. If none is, there is nothing.
func readServed[T any, L list[T]](r *apiReader, versions []string, resource string, add func(L) (int, error)) error {
	for _, version := range versions {
		if err := readList(r, "/apis/"+version+"/"+resource, add); !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// readList calls add, which returns the number of objects, with each page of a list.
func readList[T any, L list[T]](r *apiReader, path string, add func(L) (int, error)) error {
	for next := ""; ; {
		page := L(new(T))
		if err := r.get(path, next, page); err != nil {
			return listError(path, err)
		}
		n, err := add(page)
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		r.done += int64(n)
		if next = page.GetContinue(); next == "" {
			return nil
		}
		if remaining := page.GetRemainingItemCount(); remaining != nil && r.progress != nil {
			r.progress(r.done, (r.done+*remaining)*r.lists)
		}
	}
}

// listError explains why a list cannot be read.
func listError(path string, err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError {
		err = fmt.Errorf("%w; a server answers so if it cannot decode an object of the list: --endpoints or --etcd-snapshot names the object by its key", err)
	}
	return fmt.Errorf("list %s: %w", path, err)
}

// encodedList is a list that is read from protobuf, too.
type encodedList interface {
	metav1.ListInterface
	Unmarshal([]byte) error
}

// get reads one page, the first one of a list if next is empty.
func (r *apiReader) get(path, next string, page encodedList) error {
	request := r.client.Get().AbsPath(path).Param("limit", strconv.Itoa(pageSize))
	switch {
	case next != "":
		request.Param("continue", next)
	case r.others != "" && path != servicesPath:
		request.Param("resourceVersion", r.others).Param("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	case r.version != "":
		request.Param("resourceVersion", r.version).Param("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	}
	revision, err := r.fetch(request, page)
	if err == nil && r.version == "" {
		r.version, r.revision = page.GetResourceVersion(), revision
	}
	return err
}

// fetch performs a request for a list, decodes the answer and returns its resource version.
func (r *apiReader) fetch(request *rest.Request, page encodedList) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, apiPageTimeout)
	defer cancel()
	result := request.Do(ctx)
	if err := result.Error(); err != nil { // unlike Raw's, it has the server's message
		return 0, explainAPI(r.ctx, err)
	}
	content, err := result.Raw()
	if err != nil {
		return 0, explainAPI(r.ctx, err)
	}
	if encoded, isProtobuf := bytes.CutPrefix(content, protobufMagic); isProtobuf {
		var envelope runtime.Unknown
		if err = envelope.Unmarshal(encoded); err == nil {
			err = page.Unmarshal(envelope.Raw)
		}
	} else {
		err = json.Unmarshal(content, page)
	}
	if err != nil {
		return 0, fmt.Errorf("damaged answer: %w", err)
	}
	if page.GetResourceVersion() == "" {
		return 0, errors.New("the answer is not a list of Kubernetes objects")
	}
	if revision, err = strconv.ParseInt(page.GetResourceVersion(), 10, 64); err != nil {
		return 0, fmt.Errorf("resource version: %w", err)
	}
	return revision, nil
}

// notReady are the codes by which a server that starts or lacks its etcd, and a gateway before it, ask to try again.
var notReady = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// explainAPI turns an error of the client into one that helps its reader; ctx is the caller's context, whose end is no
// fault of the server.
func explainAPI(ctx context.Context, err error) error {
	status := apierrors.APIStatus(nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot impersonate"):
		return fmt.Errorf("%w; --as and its like, or as in the kubeconfig, need the right to impersonate, which deploy/audit does not grant", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; deploy/audit has a ClusterRole with the rights that are needed", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not accept the credentials: %w", err)
	case strings.Contains(err.Error(), "getting credentials: "): // client-go has no type for it
		return fmt.Errorf("the credential plugin of the kubeconfig failed: %w", err)
	case !errors.As(err, &status):
		return fmt.Errorf("%w: %w", ErrAPIUnreachable, err)
	case slices.Contains(notReady, int(status.Status().Code)), apierrors.IsTimeout(err):
		return fmt.Errorf("%w: %w; try again", ErrAPINotReady, err)
	}
	return err
}
