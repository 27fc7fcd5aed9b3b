// Package overlay puts fieldcache in front of the servers that Kubernetes' integration tests start in their own process.
//
// The conformance runner inserts calls of Front and Stop into each upstream file that starts such a server, by `go test -overlay`.
package overlay

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Program names the environment variable with fieldcache's file; without it the tests reach their server directly.
const Program = "FIELDCACHE_PROGRAM"

// Log names the environment variable with fieldcache's log level, such as debug; with it, standard error shows what fieldcache logs.
const Log = "FIELDCACHE_LOG"

// startDeadline bounds the time until fieldcache prints its address.
const startDeadline = 60 * time.Second

// lastLines is how much of the program's output an error shows.
const lastLines = 10

// guard kills the program when the pipe at its standard input ends, so that it does not outlive the tests.
const guard = `exec 3<&0 </dev/null; (cat <&3 >/dev/null; kill -s KILL $$) >/dev/null 2>&1 & exec "$@" 3<&-`

// Test is what Front needs of a running test.
type Test interface {
	Fatalf(format string, args ...interface{})
	Logf(format string, args ...interface{})
}

// Fronted is what stands in front of one server. Its zero value is nothing.
type Fronted struct {
	stop func()
}

// Front starts fieldcache in front of the server of config and returns a config that reaches the server through it. It
// stops with the test, if not before.
func (f *Fronted) Front(t Test, config *rest.Config) *rest.Config {
	program := os.Getenv(Program)
	if program == "" {
		return config
	}
	address, stop, err := start(program, config)
	if err != nil {
		t.Fatalf("starting fieldcache: %v", err)
		return config
	}
	f.stop = sync.OnceFunc(stop)
	if test, ok := t.(interface{ Cleanup(func()) }); ok {
		test.Cleanup(f.stop)
	}
	t.Logf("fieldcache serves %s at %s", config.Host, address)
	through := rest.CopyConfig(config)
	through.Host = address
	through.TLSClientConfig = rest.TLSClientConfig{}
	return through
}

// Set puts fieldcache in front of the server of the config, as Front does, for a caller that uses the variable later.
func (f *Fronted) Set(t Test, config **rest.Config) *rest.Config {
	*config = f.Front(t, *config)
	return *config
}

// Stop stops fieldcache. A server that ends waits up to a minute for watches, so fieldcache goes first.
func (f *Fronted) Stop() {
	if f.stop != nil {
		f.stop()
	}
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
	arguments := []string{"-c", guard, "fieldcache", program, "serve", "--address", "127.0.0.1:0",
		"--kubeconfig", kubeconfig, "--pass-through", "all"}
	if level := os.Getenv(Log); level != "" {
		arguments = append(arguments, "--log-level", level)
	}
	command := exec.Command("/bin/sh", arguments...)
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
	ended := make(chan error, 1)
	go func() {
		err := command.Wait()
		writer.Close()
		ended <- err
	}()
	found, last := make(chan string, 1), make(chan string, 1)
	go func() {
		var said []string
		lines := bufio.NewScanner(reader)
		for lines.Scan() {
			if address := served(lines.Text()); address != "" {
				select {
				case found <- address:
				default:
				}
			}
			if os.Getenv(Log) != "" {
				fmt.Fprintln(os.Stderr, "fieldcache:", lines.Text())
			}
			said = append(said, lines.Text())
			said = said[max(0, len(said)-lastLines):]
		}
		// A line that is too long for the scanner must not block the program.
		io.Copy(io.Discard, reader)
		last <- strings.Join(said, "\n")
	}()
	stop := func() {
		alive.Close()
		<-ended
		os.RemoveAll(directory)
	}
	select {
	case address := <-found:
		return address, stop, nil
	case err := <-ended:
		os.RemoveAll(directory)
		return "", nil, fmt.Errorf("it ended (%v); its last lines:\n%s", err, <-last)
	case <-time.After(startDeadline):
		stop()
		return "", nil, fmt.Errorf("no address after %s; its last lines:\n%s", startDeadline, <-last)
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
