# README: beside
kubectl config view --minify --flatten > operator.kubeconfig
kubectl --kubeconfig operator.kubeconfig config unset users
kubectl --kubeconfig operator.kubeconfig config set-credentials fieldcache --token "$(kubectl -n fieldcache-system create token fieldcache)"
kubectl --kubeconfig operator.kubeconfig config set-context --current --user fieldcache
# README: end
