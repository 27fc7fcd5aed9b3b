package dev.fieldcache.e2e;

import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.ObjectMeta;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.File;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;

/**
 * Runs an unmodified informer of fabric8's client until it receives SIGTERM.
 *
 * <p>It reports the calls of its handler and the content of its store: see {@link Report}. The program that starts it compares them.
 */
public final class Informer {
    private Informer() {}

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> options = Report.options(arguments);
        Config config = Config.fromKubeconfig(new File(options.get("-kubeconfig")));
        KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build();
        ResourceDefinitionContext resource = new ResourceDefinitionContext.Builder()
                .withGroup(options.get("-group"))
                .withVersion(options.get("-version"))
                .withPlural(options.get("-resource"))
                .withKind(options.get("-kind"))
                .withNamespaced(true)
                .build();
        SharedIndexInformer<GenericKubernetesResource> informer =
                client.genericKubernetesResources(resource).inAnyNamespace().runnableInformer(0);
        informer.addEventHandler(new ResourceEventHandler<>() {
            @Override
            public void onAdd(GenericKubernetesResource added) {
                handled("ADDED", added);
            }

            @Override
            public void onUpdate(GenericKubernetesResource old, GenericKubernetesResource updated) {
                handled("MODIFIED", updated);
            }

            @Override
            public void onDelete(GenericKubernetesResource deleted, boolean isFinalStateUnknown) {
                handled(isFinalStateUnknown ? "GONE" : "DELETED", deleted);
            }
        });
        informer.stopped().whenComplete((nothing, error) -> Report.say("error", "the informer has stopped: " + error));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            Report.say("store", held(informer));
            Runtime.getRuntime().halt(0);
        }));
        informer.run();
        Report.say("list", Map.of("objects", held(informer)));
        new CountDownLatch(1).await();
    }

    private static Map<String, String> held(SharedIndexInformer<GenericKubernetesResource> informer) {
        Map<String, String> versions = new TreeMap<>();
        for (GenericKubernetesResource object : informer.getStore().list()) {
            versions.put(key(object.getMetadata()), object.getMetadata().getResourceVersion());
        }
        return versions;
    }

    private static String key(ObjectMeta metadata) {
        return metadata.getNamespace() + "/" + metadata.getName();
    }

    private static void handled(String type, GenericKubernetesResource object) {
        ObjectMeta metadata = object.getMetadata();
        Report.handled(type, key(metadata), metadata.getResourceVersion(), metadata.getUid());
    }
}
