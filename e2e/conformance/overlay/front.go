// Package overlay puts fieldcache in front of the servers that Kubernetes' integration tests start in their own process.
//
// The conformance runner inserts one call of Front into each upstream file that starts such a server, by `go test -overlay`.
package overlay

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Program names the environment variable with fieldcache's file; without it the tests reach their server directly.
const Program = "FIELDCACHE_PROGRAM"

// startDeadline bounds the time until fieldcache prints its address.
const startDeadline = 60 * time.Second

// guard kills the program when the pipe at its standard input ends, so that it does not outlive the tests.
const guard = `exec 3<&0 </dev/null; (cat <&3 >/dev/null; kill -s KILL $$) >/dev/null 2>&1 & exec "$@" 3<&-`

// Test is what Front needs of a running test.
type Test interface {
	Fatalf(format string, args ...interface{})
	Logf(format string, args ...interface{})
}

// Front starts fieldcache in front of the server of config and returns a config that reaches the server through it. It
// stops with the test.
func Front(t Test, config *rest.Config) *rest.Config {
	program := os.Getenv(Program)
	if program == "" {
		return config
	}
	address, stop, err := start(program, config)
	if err != nil {
		t.Fatalf("starting fieldcache: %v", err)
		return config
	}
	if test, ok := t.(interface{ Cleanup(func()) }); ok {
		test.Cleanup(stop)
	}
	t.Logf("fieldcache serves %s at %s", config.Host, address)
	through := rest.CopyConfig(config)
	through.Host = address
	through.TLSClientConfig = rest.TLSClientConfig{}
	return through
}

// Set puts fieldcache in front of the server of the config, as Front does, for a caller that uses the variable later.
func Set(t Test, config **rest.Config) *rest.Config {
	*config = Front(t, *config)
	return *config
}

func start(program string, config *rest.Config) (string, func(), error) {
	directory, err := os.MkdirTemp("", "fieldcache-front-")
	if err != nil {
		return "", nil, err
	}
	kubeconfig := filepath.Join(directory, "kubeconfig")
	if err := clientcmd.WriteToFile(*document(config), kubeconfig); err != nil {
		return "", nil, err
	}
	command := exec.Command("/bin/sh", "-c", guard, "fieldcache", program, "serve", "--address", "127.0.0.1:0",
		"--kubeconfig", kubeconfig, "--pass-through", "all")
	command.Env = []string{"HOME=" + directory, "PATH=/usr/bin:/bin"}
	alive, err := command.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop := func() {
		alive.Close()
		command.Wait()
		writer.Close()
		os.RemoveAll(directory)
	}
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(reader)
		for lines.Scan() {
			if address := served(lines.Text()); address != "" {
				select {
				case found <- address:
				default:
				}
			}
			if os.Getenv("FIELDCACHE_LOG") != "" {
				fmt.Fprintln(os.Stderr, "fieldcache:", lines.Text())
			}
		}
	}()
	select {
	case address := <-found:
		return address, stop, nil
	case <-time.After(startDeadline):
		stop()
		return "", nil, fmt.Errorf("no address after %s", startDeadline)
	}
}

// served is the address in the line with which fieldcache says that it serves.
func served(line string) string {
	at := strings.LastIndex(line, " at http://127.0.0.1:")
	if at < 0 || !strings.Contains(line, "serving ") {
		return ""
	}
	return strings.Fields(line[at+len(" at "):])[0]
}

func document(config *rest.Config) *clientcmdapi.Config {
	cluster := clientcmdapi.NewCluster()
	cluster.Server = config.Host
	cluster.TLSServerName = config.ServerName
	cluster.CertificateAuthority = config.CAFile
	cluster.CertificateAuthorityData = config.CAData
	cluster.InsecureSkipTLSVerify = config.Insecure
	user := clientcmdapi.NewAuthInfo()
	user.Token = config.BearerToken
	context := clientcmdapi.NewContext()
	context.Cluster, context.AuthInfo = "test", "test"
	document := clientcmdapi.NewConfig()
	document.Clusters["test"], document.AuthInfos["test"], document.Contexts["test"] = cluster, user, context
	document.CurrentContext = "test"
	return document
}
