package holdfast_test

import (
	"bufio"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
)

// TestComposeFile reads docker-compose.yml as Docker Compose does, which also refuses what its schema does not know.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	options, err := cli.NewProjectOptions([]string{"docker-compose.yml"}, cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	t.Run("services", func(t *testing.T) {
		t.Parallel()
		want := []string{"gateway", "nats", "postgres", "temporal", "temporal-namespace", "temporal-schema", "temporal-ui", "worker-1", "worker-2"}
		if got := slices.Sorted(slices.Values(project.ServiceNames())); !slices.Equal(got, want) {
			t.Errorf("services = %q, want %q", got, want)
		}
	})
	t.Run("images are pinned", func(t *testing.T) {
		t.Parallel()
		version := regexp.MustCompile(`:\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?$`)
		for name, service := range project.Services {
			if service.Build == nil && !version.MatchString(service.Image) {
				t.Errorf("%s: image %q names no version", name, service.Image)
			}
		}
		if server, tools := project.Services["temporal"].Image, project.Services["temporal-schema"].Image; after(server, ":") != after(tools, ":") {
			t.Errorf("the server is %s, and its schema is made by %s", server, tools)
		}
	})
	t.Run("nothing starts before what it needs", func(t *testing.T) {
		t.Parallel()
		for name, needs := range map[string]map[string]string{
			"temporal-schema":    {"postgres": types.ServiceConditionHealthy},
			"temporal":           {"temporal-schema": types.ServiceConditionCompletedSuccessfully},
			"temporal-namespace": {"temporal": types.ServiceConditionHealthy},
			"gateway":            {"nats": types.ServiceConditionHealthy, "temporal-namespace": types.ServiceConditionCompletedSuccessfully},
			"worker-1":           {"nats": types.ServiceConditionHealthy, "temporal-namespace": types.ServiceConditionCompletedSuccessfully},
			"worker-2":           {"nats": types.ServiceConditionHealthy, "temporal-namespace": types.ServiceConditionCompletedSuccessfully},
		} {
			for needed, condition := range needs {
				if got := project.Services[name].DependsOn[needed].Condition; got != condition {
					t.Errorf("%s waits for %s to be %q, want %q", name, needed, got, condition)
				}
				if condition == types.ServiceConditionHealthy && project.Services[needed].HealthCheck == nil {
					t.Errorf("%s has no health check, and %s waits for it to be healthy", needed, name)
				}
			}
		}
		if project.Services["gateway"].HealthCheck == nil {
			t.Error("gateway has no health check, so `docker compose up --wait` does not wait for it")
		}
	})
	t.Run("what must be kept is in volumes", func(t *testing.T) {
		t.Parallel()
		for name, folder := range map[string]string{
			"postgres": "/var/lib/postgresql/data", "nats": "/data", "worker-1": "/data", "worker-2": "/data",
		} {
			if !slices.ContainsFunc(project.Services[name].Volumes, func(v types.ServiceVolumeConfig) bool {
				_, declared := project.Volumes[v.Source]
				return v.Type == types.VolumeTypeVolume && v.Target == folder && declared
			}) {
				t.Errorf("%s keeps %s in no declared volume", name, folder)
			}
		}
		settings := project.Configs["nats-settings"].Content
		if !strings.Contains(settings, "store_dir: /data") {
			t.Errorf("nats runs with %q, want JetStream in its volume", settings)
		}
		if !strings.Contains(settings, "sync_interval: always") {
			t.Errorf("nats runs with %q: what one server acknowledges has to be on the disk", settings)
		}
	})
	t.Run("the two workers are the same", func(t *testing.T) {
		t.Parallel()
		one, two := project.Services["worker-1"], project.Services["worker-2"]
		one.Name, two.Name = "", ""
		if diff := cmp.Diff(one, two); diff != "" {
			t.Errorf("worker-1 and worker-2 differ:\n%s", diff)
		}
	})
	t.Run("every part reaches the others", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"worker-1", "worker-2", "gateway"} {
			env := project.Services[name].Environment
			for variable, want := range map[string]string{"TEMPORAL_ADDRESS": "temporal:7233", "NATS_URL": "nats://nats:4222", "HOLDFAST_BLOBS": "/blobs"} {
				if got := env[variable]; got == nil || *got != want {
					t.Errorf("%s: %s is not %q", name, variable, want)
				}
			}
		}
	})
	t.Run("ports are for this machine only", func(t *testing.T) {
		t.Parallel()
		for name, service := range project.Services {
			for _, port := range service.Ports {
				if port.HostIP != "127.0.0.1" {
					t.Errorf("%s publishes port %s on %q: there is no authentication", name, port.Published, port.HostIP)
				}
			}
		}
	})
	t.Run("each build has its target", func(t *testing.T) {
		t.Parallel()
		targets := dockerTargets(t)
		for name, service := range project.Services {
			if service.Build != nil && !slices.Contains(targets, service.Build.Target) {
				t.Errorf("%s is built from target %q, and the Dockerfile has %q", name, service.Build.Target, targets)
			}
		}
	})
}

// The images hold static binaries and run as nobody in particular.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CGO_ENABLED=0", "\nUSER 10001\n", "FROM golang:1.26"} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
}

// dockerTargets are the names of the Dockerfile's stages.
func dockerTargets(t *testing.T) (names []string) {
	t.Helper()
	file, err := os.Open("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	stage := regexp.MustCompile(`^FROM \S+ AS (\S+)$`)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if match := stage.FindStringSubmatch(lines.Text()); match != nil {
			names = append(names, match[1])
		}
	}
	return names
}

// after is what follows the last separator.
func after(s, separator string) string { return s[strings.LastIndex(s, separator)+1:] }
