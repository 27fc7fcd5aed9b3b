# README: drop-in-authority
kubectl get view blue-shirts -o jsonpath='{.status.endpoint.caBundle}' | base64 -d > ca.crt
kubectl -n team-a create configmap fieldcache-ca --from-file=ca.crt
# README: end
