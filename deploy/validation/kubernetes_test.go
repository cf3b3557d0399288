package validation

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// cluster is what kubectl would apply.
type cluster struct {
	yaml       []byte
	accounts   []corev1.ServiceAccount
	configs    []corev1.ConfigMap
	networks   []networkingv1.NetworkPolicy
	budgets    []policyv1.PodDisruptionBudget
	services   []corev1.Service
	job        batchv1.Job
	deployment appsv1.Deployment // of the workers
	dashboard  appsv1.Deployment
}

// build runs kustomize over the manifests and reads what it makes strictly: a
// field that Kubernetes does not know is an error.
func build(t *testing.T) cluster {
	t.Helper()
	return buildFrom(t, "../kubernetes")
}

func buildFrom(t *testing.T, dir string) cluster {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	require.NoError(t, err)
	var c cluster
	c.yaml, err = resources.AsYaml()
	require.NoError(t, err)
	for _, document := range bytes.Split(c.yaml, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal(document, &kind))
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 ServiceAccount":
			c.accounts = append(c.accounts, strictly[corev1.ServiceAccount](t, document))
		case "v1 ConfigMap":
			c.configs = append(c.configs, strictly[corev1.ConfigMap](t, document))
		case "networking.k8s.io/v1 NetworkPolicy":
			c.networks = append(c.networks, strictly[networkingv1.NetworkPolicy](t, document))
		case "policy/v1 PodDisruptionBudget":
			c.budgets = append(c.budgets, strictly[policyv1.PodDisruptionBudget](t, document))
		case "apps/v1 Deployment":
			if d := strictly[appsv1.Deployment](t, document); d.Name == "maestro-worker" {
				c.deployment = d
			} else {
				c.dashboard = d
			}
		case "v1 Service":
			c.services = append(c.services, strictly[corev1.Service](t, document))
		case "batch/v1 Job":
			c.job = strictly[batchv1.Job](t, document)
		default:
			require.Fail(t, "no test knows this kind", "%+v", kind)
		}
	}
	return c
}

func strictly[T any](t *testing.T, document []byte) T {
	t.Helper()
	var object T
	require.NoError(t, yaml.UnmarshalStrict(document, &object), "%s", document)
	return object
}

func TestManifestsNameEachOther(t *testing.T) {
	t.Parallel()
	c := build(t)
	pod := c.deployment.Spec.Template
	require.Equal(t, "maestro", c.deployment.Namespace)
	require.Equal(t, c.accounts[0].Name, pod.Spec.ServiceAccountName)
	require.False(t, *c.accounts[0].AutomountServiceAccountToken)

	mounts := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	for _, v := range pod.Spec.Volumes {
		require.Contains(t, mounts, v.Name, "nothing mounts volume %s", v.Name)
		switch {
		case v.Ephemeral != nil:
			require.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, v.Ephemeral.VolumeClaimTemplate.Spec.AccessModes)
		case v.ConfigMap != nil:
			require.Equal(t, c.configs[0].Name, v.ConfigMap.Name)
			require.Contains(t, c.configs[0].Data, "agents.yaml")
		}
	}
	require.Len(t, mounts, len(pod.Spec.Volumes))
	require.Greater(t, *c.deployment.Spec.Replicas, int32(1))
	apart := pod.Spec.TopologySpreadConstraints[0]
	require.Equal(t, "kubernetes.io/hostname", apart.TopologyKey, "the pods share no volume, and may be on different nodes")

	named := map[string]bool{}
	for _, p := range pod.Spec.Containers[0].Ports {
		named[p.Name] = true
	}
	for _, p := range c.network(t, "maestro-worker").Spec.Ingress[0].Ports {
		require.True(t, named[p.Port.StrVal], "the network policy admits to port %s, which no container has", p.Port)
	}
	for what, selector := range map[string]*metav1.LabelSelector{
		"deployment": c.deployment.Spec.Selector, "budget": c.budgets[0].Spec.Selector,
		"network": &c.network(t, "maestro-worker").Spec.PodSelector,
		"spread":  apart.LabelSelector,
	} {
		chosen, err := metav1.LabelSelectorAsSelector(selector)
		require.NoError(t, err)
		require.True(t, chosen.Matches(labels.Set(pod.Labels)), "the %s does not select the workers", what)
	}
}

// network is the policy of a name.
func (c cluster) network(t *testing.T, name string) *networkingv1.NetworkPolicy {
	t.Helper()
	for i, n := range c.networks {
		if n.Name == name {
			return &c.networks[i]
		}
	}
	require.Fail(t, "no such network policy", name)
	return nil
}

// TestTheDashboardAndTheJobReachWhatTheWorkersReach: the address of Temporal and the image are set in one place, and the
// service leads to the dashboard, on the workers' store.
func TestTheDashboardAndTheJobReachWhatTheWorkersReach(t *testing.T) {
	t.Parallel()
	c := build(t)
	worker := c.deployment.Spec.Template.Spec
	variables := func(pod corev1.PodSpec) map[string]string {
		found := map[string]string{}
		for _, e := range pod.Containers[0].Env {
			found[e.Name] = e.Value
		}
		return found
	}
	want := variables(worker)
	for name, pod := range map[string]corev1.PodTemplateSpec{
		"maestro-dashboard": c.dashboard.Spec.Template,
		"maestro-namespace": c.job.Spec.Template,
	} {
		require.Equal(t, worker.Containers[0].Image, pod.Spec.Containers[0].Image, name)
		for _, variable := range []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"} {
			require.Equal(t, want[variable], variables(pod.Spec)[variable], "%s of %s", variable, name)
		}
		chosen, err := metav1.LabelSelectorAsSelector(&c.network(t, name).Spec.PodSelector)
		require.NoError(t, err)
		require.True(t, chosen.Matches(labels.Set(pod.Labels)), name)
	}
	pod := c.dashboard.Spec.Template
	require.Equal(t, want["MAESTRO_STATE_DIR"], variables(pod.Spec)["MAESTRO_STATE_DIR"])
	require.Equal(t, worker.Containers[0].EnvFrom[0], pod.Spec.Containers[0].EnvFrom[0], "where the store is")
	require.Equal(t, worker.Containers[0].VolumeMounts[0], pod.Spec.Containers[0].VolumeMounts[0])
	require.Len(t, c.services, 1)
	require.True(t, labels.SelectorFromSet(c.services[0].Spec.Selector).Matches(labels.Set(pod.Labels)))
	port := pod.Spec.Containers[0].Ports[0]
	require.Equal(t, port.Name, c.services[0].Spec.Ports[0].TargetPort.StrVal)
	require.Equal(t, port.Name, c.network(t, "maestro-dashboard").Spec.Ingress[0].Ports[0].Port.StrVal)
	require.Equal(t, port.ContainerPort, c.services[0].Spec.Ports[0].Port)
}

func TestPodsAreConfinedAndDrain(t *testing.T) {
	t.Parallel()
	c := build(t)
	for name, pod := range map[string]corev1.PodSpec{
		"worker": c.deployment.Spec.Template.Spec, "dashboard": c.dashboard.Spec.Template.Spec, "namespace": c.job.Spec.Template.Spec,
	} {
		only := pod.Containers[0].SecurityContext
		require.Equal(t, c.accounts[0].Name, pod.ServiceAccountName, name)
		require.False(t, *pod.AutomountServiceAccountToken, name)
		require.False(t, *pod.EnableServiceLinks, name)
		require.True(t, *pod.SecurityContext.RunAsNonRoot, name)
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type, name)
		require.True(t, *only.ReadOnlyRootFilesystem, name)
		require.False(t, *only.AllowPrivilegeEscalation, name)
		require.Equal(t, []corev1.Capability{"ALL"}, only.Capabilities.Drop, name)
	}
	pod := c.deployment.Spec.Template.Spec
	worker := pod.Containers[0]
	for name, probe := range map[string]*corev1.Probe{
		"startup": worker.StartupProbe, "liveness": worker.LivenessProbe,
		"readiness": worker.ReadinessProbe,
	} {
		require.NotNil(t, probe, name)
		require.Equal(t, "health", probe.HTTPGet.Port.StrVal, name)
	}
	require.Equal(t, "/readyz", worker.ReadinessProbe.HTTPGet.Path)
	require.Equal(t, "/healthz", worker.LivenessProbe.HTTPGet.Path, "a worker that is not ready is no reason to kill it")
}

// TestTheComponentOfRooms adds what rooms need, and nothing else, to the pod.
func TestTheComponentOfRooms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../kubernetes")))
	file := filepath.Join(dir, "kustomization.yaml")
	settings, err := os.ReadFile(file)
	require.NoError(t, err)
	with := bytes.Replace(settings, []byte("# components:"), []byte("components:"), 1)
	require.NotEqual(t, settings, with)
	require.NoError(t, os.WriteFile(file, with, 0o600))

	want, got := build(t).deployment, buildFrom(t, dir).deployment
	no, unmasked := false, corev1.UnmaskedProcMount
	pod := &want.Spec.Template.Spec
	pod.HostUsers = &no
	pod.Containers[0].SecurityContext.ProcMount = &unmasked
	pod.Containers[0].SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	pod.Containers[0].SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	require.Equal(t, want, got)
}
