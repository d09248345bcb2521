"""Tools for containers and clusters, databases and queues, monitoring and tickets, deployment and accounts."""

from __future__ import annotations

from ops_tasks.catalogue import Param, Tool

HOST = Param(name="host", draws="host", aliases=("hostname", "server", "machine", "target"))
CONTAINER = Param(name="container", draws="container", aliases=("container_name", "name", "containerId"))
DEPLOYMENT = Param(name="deployment", draws="deployment", aliases=("deployment_name", "workload", "app", "name"))
NAMESPACE = Param(name="namespace", draws="namespace", aliases=("ns", "k8s_namespace", "project"))
MAYBE_NAMESPACE = Param(name="namespace", draws="namespace", aliases=("ns", "scope"), also=" in namespace {namespace}")
POD = Param(name="pod", draws="container", aliases=("pod_name", "podName", "name"))
NODE = Param(name="node", draws="host", aliases=("node_name", "nodeName", "host", "worker"))
IMAGE = Param(name="image", draws="image", aliases=("image_name", "repository", "imageRef"))
TAG = Param(name="tag", draws="version", aliases=("image_tag", "version", "imageTag"))
TABLE = Param(name="table", draws="table", aliases=("table_name", "tableName", "relation"))
COLUMN = Param(name="column", draws="column", aliases=("column_name", "field", "col"))
DATABASE = Param(name="database", draws="database", aliases=("db", "database_name", "dbName"))
MAYBE_DATABASE = Param(name="database", draws="database", aliases=("db", "dbName"), also=" in the database {database}")
QUEUE = Param(name="queue", draws="queue", aliases=("queue_name", "queueName", "name"))
TOPIC = Param(name="topic", draws="queue", aliases=("topic_name", "topicName", "stream"))
USER = Param(name="user", draws="user", aliases=("username", "account", "login", "user_name"))
TICKET = Param(name="ticket", draws="ticket", aliases=("ticket_id", "issue", "ticketId", "key"))
SERVICE = Param(name="service", draws="unit", aliases=("service_name", "serviceName", "component"))
ALERT = Param(name="alert", draws="unit", aliases=("alert_name", "alertName", "rule"))
MINUTES = Param(name="minutes", draws="small", aliases=("duration_minutes", "window_minutes", "mins"))
METRIC = Param(
    name="metric", choices=("cpu", "memory", "disk", "swap", "inodes"), aliases=("metric_name", "series", "measure")
)
PRIORITY = Param(name="priority", choices=("low", "normal", "high", "urgent"), aliases=("prio", "level", "severity"))
ENVIRONMENT = Param(
    name="environment", choices=("production", "staging", "testing"), aliases=("env", "stage", "target_env")
)
DOMAIN = Param(name="domain", draws="domain", aliases=("domain_name", "common_name", "cn", "fqdn"))
EMAIL = Param(name="email", draws="email", aliases=("email_address", "mail", "contact"))

CLUSTER_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="start_container",
        about="Start a container on a host.",
        params=(CONTAINER, HOST),
        asks=(
            "Start container {container} on {host}",
            "On {host}, bring up the container {container}",
            "could you get {container} running on {host} again",
            "{host}: start {container}, please",
        ),
        done="Container {container} is running on {host}.",
        aliases=("startContainer", "container.start", "start-container"),
    ),
    Tool(
        name="stop_container",
        about="Stop a running container on a host.",
        params=(
            HOST,
            CONTAINER,
            Param(
                name="timeout",
                draws="seconds",
                aliases=("timeout_seconds", "grace_period", "wait"),
                also=" with a timeout of {timeout} seconds",
            ),
        ),
        asks=(
            "Stop the container {container} on {host}",
            "{host} is short of memory, so stop {container} there",
            "can you shut down the container {container} that runs on {host}",
            "on {host}: stop {container}",
        ),
        done="Container {container} on {host} stopped.",
        aliases=("stopContainer", "container.stop", "stop-container", "halt_container"),
    ),
    Tool(
        name="restart_container",
        about="Restart a container.",
        params=(
            CONTAINER,
            Param(name="delay", draws="seconds", aliases=("delay_s", "wait"), also=" after a delay of {delay} seconds"),
        ),
        asks=(
            "Restart container {container}",
            "container {container} hangs, restart it",
            "Please bounce the container {container}",
            "{container} needs a container restart",
        ),
        done="Container {container} restarted.",
        aliases=("restartContainer", "container.restart", "bounce-container"),
    ),
    Tool(
        name="remove_container",
        about="Remove a container, by force if wanted.",
        params=(CONTAINER, Param(name="force", draws="yes", aliases=("forced", "use_force"))),
        asks=(
            "Remove container {container} with force {force}",
            "Delete the container {container}, force: {force}",
            "with force set to {force}, remove {container}",
            "nobody uses {container} any more: remove the container, force={force}",
        ),
        done="Container {container} removed.",
        aliases=("removeContainer", "container.rm", "delete-container"),
    ),
    Tool(
        name="scale_deployment",
        about="Set the number of replicas of a deployment.",
        params=(
            DEPLOYMENT,
            Param(name="replicas", draws="small", aliases=("count", "replica_count", "size")),
            MAYBE_NAMESPACE,
        ),
        asks=(
            "Scale {deployment} to {replicas} replicas",
            "{deployment}: {replicas} replicas",
            "We expect more traffic tonight, run {replicas} replicas of {deployment}",
            "can you set the replica count of {deployment} to {replicas}",
            "I want {replicas} copies of {deployment}",
        ),
        done="{deployment} scaled to {replicas} replicas.",
        aliases=("scaleDeployment", "deployment.scale", "scale-deployment", "set_replicas"),
    ),
    Tool(
        name="restart_rollout",
        about="Restart all pods of a deployment one after another.",
        params=(DEPLOYMENT, NAMESPACE),
        asks=(
            "Do a rolling restart of {deployment} in {namespace}",
            "In namespace {namespace}, restart the rollout of {deployment}",
            "{namespace}: {deployment} wants a rolling restart",
            "The new config is not picked up, so do a rollout restart for {deployment} in {namespace}",
        ),
        done="Rolling restart of {deployment} in {namespace} finished.",
        aliases=("restartRollout", "rollout.restart", "rollout-restart"),
    ),
    Tool(
        name="undo_rollout",
        about="Go back to an earlier rollout revision of a deployment.",
        params=(DEPLOYMENT, Param(name="revision", draws="small", aliases=("to_revision", "rev")), MAYBE_NAMESPACE),
        asks=(
            "Undo the rollout of {deployment} to revision {revision}",
            "go back to revision {revision} of {deployment}",
            "{deployment} crashes since the rollout, put it back on revision {revision}",
            "can {deployment} be taken back to rollout revision {revision}",
        ),
        done="{deployment} is back on revision {revision}.",
        aliases=("undoRollout", "rollout.undo", "rollout-undo"),
    ),
    Tool(
        name="drain_node",
        about="Move all pods away from a cluster node.",
        params=(
            NODE,
            Param(name="grace_seconds", draws="seconds", aliases=("grace", "gracePeriodSeconds", "grace_period")),
        ),
        asks=(
            "Drain node {node} with a grace period of {grace_seconds} seconds",
            "give the pods {grace_seconds} seconds and drain {node}",
            "{node} gets a new disk, drain it with {grace_seconds} seconds of grace",
            "drain: {node}, grace {grace_seconds} s",
        ),
        done="Node {node} drained.",
        aliases=("drainNode", "node.drain", "drain-node", "evacuate_node"),
    ),
    Tool(
        name="cordon_node",
        about="Keep new pods off a cluster node.",
        params=(NODE,),
        asks=(
            "Cordon {node}",
            "No new pods on {node}, please",
            "can you mark the node {node} as unschedulable",
            "{node} is flaky, so cordon it",
        ),
        done="Node {node} is cordoned.",
        aliases=("cordonNode", "node.cordon", "cordon-node"),
    ),
    Tool(
        name="pull_image",
        about="Pull a container image with a tag.",
        params=(
            IMAGE,
            TAG,
            Param(name="host", draws="host", aliases=("hostname", "server", "node"), also=" on the host {host}"),
        ),
        asks=(
            "Pull {image} with tag {tag}",
            "Fetch tag {tag} of the image {image}",
            "we need {image} in version {tag} locally, pull it",
            "image pull: {image}, tag {tag}",
        ),
        done="Pulled {image}:{tag}.",
        aliases=("pullImage", "image.pull", "pull-image", "fetch_image"),
    ),
    Tool(
        name="set_image",
        about="Set the image and tag that a deployment runs.",
        params=(DEPLOYMENT, IMAGE, TAG),
        asks=(
            "Let {deployment} run the image {image} with tag {tag}",
            "Set image {image}, tag {tag}, on deployment {deployment}",
            "Tag {tag} of {image} should be used by {deployment}",
            "can you switch {deployment} to {image} at {tag}",
        ),
        done="{deployment} now runs {image}:{tag}.",
        aliases=("setImage", "deployment.set_image", "set-image"),
    ),
    Tool(
        name="set_env",
        about="Set an environment variable of a deployment.",
        params=(
            DEPLOYMENT,
            Param(name="variable", draws="variable", aliases=("env_name", "var", "key")),
            Param(name="value", draws="number", aliases=("val", "env_value")),
            MAYBE_NAMESPACE,
        ),
        asks=(
            "Set {variable} to {value} for {deployment}",
            "On {deployment}, the variable {variable} should be {value}",
            "please use {variable}={value} on {deployment}",
            "Requests time out, so give {deployment} the value {value} for {variable}",
        ),
        done="{variable} is {value} on {deployment}.",
        aliases=("setEnv", "deployment.env", "set-env-var"),
    ),
    Tool(
        name="get_pod_logs",
        about="Read the logs of a pod.",
        params=(
            POD,
            NAMESPACE,
            Param(name="lines", draws="number", aliases=("tail", "limit"), also=", the last {lines} lines"),
        ),
        asks=(
            "Show me the logs of pod {pod} in {namespace}",
            "What does {pod} in namespace {namespace} log",
            "{namespace}: logs of {pod}",
            "{pod} keeps crashing, get its pod logs from {namespace}",
        ),
        done="{pod} in {namespace}: no errors in the log.",
        aliases=("getPodLogs", "pod.logs", "pod-logs"),
    ),
    Tool(
        name="create_namespace",
        about="Create a namespace in the cluster.",
        params=(NAMESPACE, Param(name="owner", draws="user", aliases=("owned_by", "user"), also=" owned by {owner}")),
        asks=(
            "Create the namespace {namespace}",
            "we need a new namespace {namespace}",
            "can you add a namespace called {namespace}",
        ),
        done="Namespace {namespace} created.",
        aliases=("createNamespace", "namespace.create", "new-namespace"),
    ),
    Tool(
        name="port_forward",
        about="Forward a local port to a port of a deployment.",
        params=(
            DEPLOYMENT,
            Param(name="local_port", draws="port", aliases=("localPort", "from_port", "listen_port")),
            Param(name="remote_port", draws="port", aliases=("remotePort", "to_port", "target_port")),
        ),
        asks=(
            "Forward local port {local_port} to port {remote_port} of {deployment}",
            "I want to reach port {remote_port} of {deployment} on my local port {local_port}",
            "{deployment}: forward local {local_port} to remote {remote_port}",
            "can you make remote port {remote_port} of {deployment} reachable at local port {local_port}",
        ),
        done="Local port {local_port} goes to {deployment} port {remote_port}.",
        aliases=("portForward", "port.forward", "forward-local-port", "forward_port"),
    ),
    Tool(
        name="create_secret",
        about="Create an empty secret with one key in a namespace.",
        params=(
            Param(name="secret", draws="unit", aliases=("secret_name", "secretName", "name")),
            Param(name="key", draws="variable", aliases=("secret_key", "entry", "field")),
            NAMESPACE,
        ),
        asks=(
            "Create the secret {secret} with key {key} in {namespace}",
            "In namespace {namespace}, make a secret {secret} holding {key}",
            "{key} belongs in a new secret {secret} in {namespace}",
        ),
        done="Secret {secret} with key {key} created in {namespace}.",
        aliases=("createSecret", "secret.create", "create-secret"),
    ),
    Tool(
        name="delete_pod",
        about="Delete a pod, so that it is made anew.",
        params=(POD, NAMESPACE),
        asks=(
            "Delete pod {pod} in {namespace}",
            "in {namespace}, kill the pod {pod}",
            "{pod} is stuck, delete the pod from namespace {namespace}",
            "could you get rid of pod {pod}, namespace {namespace}",
        ),
        done="Pod {pod} deleted from {namespace}.",
        aliases=("deletePod", "pod.delete", "delete-pod", "kill_pod"),
    ),
    Tool(
        name="set_memory_limit",
        about="Set the memory limit of a container in megabytes.",
        params=(CONTAINER, Param(name="megabytes", draws="number", aliases=("memory_mb", "limit_mb", "mb"))),
        asks=(
            "Limit {container} to {megabytes} MB of memory",
            "Set a memory limit of {megabytes} megabytes on container {container}",
            "{container} was killed for memory, raise its limit to {megabytes} MB",
            "memory of {container}: at most {megabytes} MB",
        ),
        done="Memory limit of {container} is {megabytes} MB.",
        aliases=("setMemoryLimit", "container.memory", "memory-limit"),
    ),
    Tool(
        name="set_autoscaling",
        about="Scale a deployment by itself at a processor load.",
        params=(
            DEPLOYMENT,
            Param(name="max_replicas", draws="small", aliases=("max", "maxReplicas", "upper_limit")),
            Param(name="cpu_percent", draws="percent", aliases=("cpu", "cpuTarget", "target_percent")),
        ),
        asks=(
            "Autoscale {deployment} up to {max_replicas} replicas at {cpu_percent} percent CPU",
            "At {cpu_percent}% CPU, let {deployment} grow to at most {max_replicas} replicas",
            "autoscaling for {deployment}: max {max_replicas}, CPU {cpu_percent}%",
        ),
        done="Autoscaling of {deployment}: at most {max_replicas} replicas at {cpu_percent}% CPU.",
        aliases=("setAutoscaling", "deployment.autoscale", "autoscale-deployment"),
    ),
    Tool(
        name="bind_volume",
        about="Mount a volume into a container.",
        params=(
            CONTAINER,
            Param(name="volume", draws="volume", aliases=("volume_id", "volumeId", "disk")),
            Param(name="path", draws="folder", aliases=("mount_path", "mountpoint", "directory")),
            Param(
                name="read_only",
                draws="yes",
                aliases=("readonly", "readOnly", "ro"),
                also=", with read-only set to {read_only}",
            ),
        ),
        asks=(
            "Mount {volume} at {path} in {container}",
            "container {container} needs the volume {volume} under {path}",
            "Put volume {volume} into {container}, mounted at {path}",
            "can {path} of {container} be backed by {volume}",
        ),
        done="{volume} mounted at {path} in {container}.",
        aliases=("bindVolume", "container.mount", "bind-volume"),
    ),
    Tool(
        name="set_restart_policy",
        about="Set when a container is restarted.",
        params=(
            CONTAINER,
            Param(name="policy", choices=("always", "never", "on-failure"), aliases=("restart_policy", "mode", "when")),
        ),
        asks=(
            "Set the restart policy of {container} to {policy}",
            "restart policy {policy} for {container}, please",
            "{container}: restart {policy}",
            "It should survive a reboot properly: use the policy {policy} for container {container}",
        ),
        done="Restart policy of {container} is {policy}.",
        aliases=("setRestartPolicy", "container.restart_policy", "restart-policy"),
    ),
    Tool(
        name="expose_deployment",
        about="Offer a deployment on a port.",
        params=(
            DEPLOYMENT,
            Param(name="port", draws="port", aliases=("port_number", "service_port", "listen")),
            Param(name="protocol", choices=("tcp", "udp", "http"), aliases=("proto", "scheme", "transport")),
        ),
        asks=(
            "Expose {deployment} on port {port} over {protocol}",
            "Make {deployment} reachable by {protocol} at port {port}",
            "{protocol} port {port} should lead to {deployment}",
            "could you offer {deployment} at {port}, protocol {protocol}",
        ),
        done="{deployment} is exposed on {protocol} port {port}.",
        aliases=("exposeDeployment", "deployment.expose", "expose-deployment"),
    ),
)

DATA_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="create_index",
        about="Create an index on a column of a table.",
        params=(
            TABLE,
            COLUMN,
            Param(name="unique", draws="yes", aliases=("is_unique", "uniq"), also=", with unique set to {unique}"),
        ),
        asks=(
            "Create an index on {column} of {table}",
            "Table {table} needs an index for {column}",
            "lookups by {column} are slow, so index it in {table}",
            "can you index {table} by {column}",
        ),
        done="Index on {table}.{column} created.",
        aliases=("createIndex", "index.create", "add-index"),
    ),
    Tool(
        name="backup_database",
        about="Write a backup of a database to a bucket.",
        params=(
            DATABASE,
            Param(name="bucket", draws="bucket", aliases=("destination", "bucket_name", "target")),
            Param(
                name="compression",
                choices=("gzip", "zstd", "none"),
                aliases=("compress", "codec"),
                also=" with compression {compression}",
            ),
        ),
        asks=(
            "Back up {database} to {bucket}",
            "Before the upgrade, write a backup of {database} into the bucket {bucket}",
            "bucket {bucket} should get a backup of {database}",
            "db backup: {database} -> {bucket}",
        ),
        done="Backup of {database} written to {bucket}.",
        aliases=("backupDatabase", "db.backup", "backup-db", "dump_database"),
    ),
    Tool(
        name="restore_database",
        about="Restore a database from the backup of a day.",
        params=(
            DATABASE,
            Param(name="date", draws="date", aliases=("backup_date", "day", "as_of")),
            Param(name="host", draws="host", aliases=("server", "target_host"), also=" on {host}"),
        ),
        asks=(
            "Restore {database} from the backup of {date}",
            "Take the {date} backup and restore {database}",
            "Rows are missing: bring {database} back to the state of {date}",
            "restore {database}, backup date {date}",
        ),
        done="{database} restored from {date}.",
        aliases=("restoreDatabase", "db.restore", "restore-db"),
    ),
    Tool(
        name="vacuum_table",
        about="Give back the space of deleted rows of a table.",
        params=(TABLE, DATABASE),
        asks=(
            "Vacuum {table} in {database}",
            "in {database}, run a vacuum on table {table}",
            "{table} is bloated, vacuum it ({database})",
            "{database}: vacuum {table}",
        ),
        done="{table} in {database} vacuumed.",
        aliases=("vacuumTable", "table.vacuum", "vacuum-table"),
    ),
    Tool(
        name="truncate_table",
        about="Delete all rows of a table.",
        params=(TABLE, MAYBE_DATABASE),
        asks=(
            "Truncate {table}",
            "Empty the table {table}",
            "delete all rows of {table}",
            "the test data can go, truncate table {table}",
        ),
        done="{table} is empty.",
        aliases=("truncateTable", "table.truncate", "empty-table"),
    ),
    Tool(
        name="count_rows",
        about="Count the rows of a table where a column has a value.",
        params=(TABLE, COLUMN, Param(name="value", draws="number", aliases=("equals", "val", "match"))),
        asks=(
            "How many rows of {table} have {column} equal to {value}",
            "Count rows in {table} where {column} is {value}",
            "{column} = {value}: count these in {table}",
        ),
        done="Counted the rows of {table} with {column} {value}.",
        aliases=("countRows", "table.count", "count-rows"),
    ),
    Tool(
        name="add_column",
        about="Add a column to a table.",
        params=(
            TABLE,
            COLUMN,
            Param(name="type", choices=("text", "integer", "boolean", "timestamp"), aliases=("data_type", "kind")),
        ),
        asks=(
            "Add a {type} column {column} to {table}",
            "{table} should get the column {column} of type {type}",
            "new column for {table}: {column}, {type}",
            "can you extend {table} by {column} with the type {type}",
        ),
        done="Column {column} added to {table}.",
        aliases=("addColumn", "table.add_column", "add-column"),
    ),
    Tool(
        name="grant_access",
        about="Grant a user a privilege on a database.",
        params=(
            USER,
            DATABASE,
            Param(name="privilege", choices=("read", "write", "admin"), aliases=("permission", "right", "access")),
        ),
        asks=(
            "Grant {user} {privilege} access to {database}",
            "{database}: {privilege} rights for {user}",
            "Give the privilege {privilege} on {database} to {user}",
            "{user} joined the data team and needs {privilege} on {database}",
        ),
        done="{user} has {privilege} access to {database}.",
        aliases=("grantAccess", "db.grant", "grant-access"),
    ),
    Tool(
        name="create_database",
        about="Create a database with an owner.",
        params=(
            DATABASE,
            Param(name="owner", draws="user", aliases=("db_owner", "owner_name", "owned_by")),
            Param(name="host", draws="host", aliases=("server", "instance"), also=" on {host}"),
        ),
        asks=(
            "Create the database {database} owned by {owner}",
            "{owner} needs a new database {database}",
            "new db {database}, owner {owner}",
        ),
        done="Database {database} created for {owner}.",
        aliases=("createDatabase", "db.create", "create-db"),
    ),
    Tool(
        name="set_connection_limit",
        about="Set how many connections a database accepts.",
        params=(DATABASE, Param(name="limit", draws="number", aliases=("max_connections", "maxConnections", "count"))),
        asks=(
            "Allow {limit} connections to {database}",
            "Set the connection limit of {database} to {limit}",
            "at most {limit} connections for {database}, please",
            "Clients are refused, so raise the limit of {database} to {limit} connections",
        ),
        done="{database} accepts {limit} connections.",
        aliases=("setConnectionLimit", "db.connections", "connection-limit"),
    ),
    Tool(
        name="create_read_replica",
        about="Create a read replica of a database in a zone.",
        params=(DATABASE, Param(name="zone", draws="zone", aliases=("availability_zone", "region", "location"))),
        asks=(
            "Create a read replica of {database} in {zone}",
            "{zone} should have a read replica of {database}",
            "Reports slow the primary down, add a replica of {database} in {zone}",
            "read replica: {database}, {zone}",
        ),
        done="Read replica of {database} created in {zone}.",
        aliases=("createReadReplica", "db.replicate", "read-replica"),
    ),
    Tool(
        name="purge_queue",
        about="Delete all messages of a queue.",
        params=(QUEUE, Param(name="broker", draws="host", aliases=("host", "server"), also=" on the broker {broker}")),
        asks=(
            "Purge the queue {queue}",
            "throw away all messages in {queue}",
            "{queue} is full of junk, purge it",
            "could you empty queue {queue}",
        ),
        done="Queue {queue} purged.",
        aliases=("purgeQueue", "queue.purge", "purge-queue", "empty_queue"),
    ),
    Tool(
        name="get_queue_depth",
        about="Tell how many messages wait in a queue of a broker.",
        params=(QUEUE, Param(name="broker", draws="fqdn", aliases=("host", "server", "endpoint"))),
        asks=(
            "How deep is {queue} on {broker}",
            "how many messages wait in queue {queue} at {broker}",
            "Ask {broker} for the depth of {queue}",
            "{broker}: depth of {queue}",
        ),
        done="Depth of {queue} on {broker} is normal.",
        aliases=("getQueueDepth", "queue.depth", "queue-depth"),
    ),
    Tool(
        name="set_retention",
        about="Set how many hours a topic keeps its messages.",
        params=(TOPIC, Param(name="hours", draws="number", aliases=("retention_hours", "keep_hours"))),
        asks=(
            "Keep messages of {topic} for {hours} hours",
            "Set the retention of topic {topic} to {hours} hours",
            "{hours} hours of retention for {topic}",
            "The disk fills up, so cut the retention of {topic} to {hours} hours",
        ),
        done="{topic} keeps messages for {hours} hours.",
        aliases=("setRetention", "topic.retention", "set-retention"),
    ),
    Tool(
        name="create_topic",
        about="Create a topic with a number of partitions.",
        params=(
            TOPIC,
            Param(name="partitions", draws="small", aliases=("partition_count", "numPartitions", "shards")),
            Param(
                name="replication",
                draws="small",
                aliases=("replication_factor", "copies"),
                also=" and a replication factor of {replication}",
            ),
        ),
        asks=(
            "Create topic {topic} with {partitions} partitions",
            "we need a topic {topic}, split in {partitions} partitions",
            "new topic: {topic}, {partitions} partitions",
            "can you set up a topic called {topic} that has {partitions} partitions",
        ),
        done="Topic {topic} with {partitions} partitions created.",
        aliases=("createTopic", "topic.create", "create-topic"),
    ),
    Tool(
        name="publish_message",
        about="Publish an id as a message on a queue.",
        params=(QUEUE, Param(name="message", draws="uuid", aliases=("body", "payload", "message_id"))),
        asks=(
            "Publish {message} on {queue}",
            "Send the message {message} to queue {queue}",
            "put {message} into {queue} again, it was lost",
            "{queue}: publish {message}",
        ),
        done="{message} published on {queue}.",
        aliases=("publishMessage", "queue.publish", "send-message", "enqueue"),
    ),
    Tool(
        name="move_messages",
        about="Move a number of messages from one queue to another.",
        params=(
            Param(name="source", draws="queue", aliases=("from_queue", "src", "source_queue")),
            Param(name="target", draws="queue", aliases=("to_queue", "dst", "target_queue")),
            Param(name="count", draws="number", aliases=("limit", "message_count", "amount")),
        ),
        asks=(
            "Move {count} messages from {source} to {target}",
            "Take {count} messages out of {source} and put them into {target}",
            "{target} should receive {count} messages from {source}",
            "from {source} to {target}: {count} messages",
        ),
        done="{count} messages moved from {source} to {target}.",
        aliases=("moveMessages", "queue.move", "move-messages"),
    ),
    Tool(
        name="create_queue",
        about="Create a queue, durable or not.",
        params=(QUEUE, Param(name="durable", draws="yes", aliases=("persistent", "is_durable"))),
        asks=(
            "Create queue {queue} with durable set to {durable}",
            "durable={durable}: make a queue {queue}",
            "we want a queue named {queue}, durable: {durable}",
        ),
        done="Queue {queue} created.",
        aliases=("createQueue", "queue.create", "new-queue"),
    ),
    Tool(
        name="flush_cache",
        about="Delete the cache entries of a host that begin with a prefix.",
        params=(HOST, Param(name="prefix", draws="key", aliases=("key_prefix", "pattern", "keys"))),
        asks=(
            "Flush cache entries {prefix} on {host}",
            "On {host}, drop everything from the cache that begins with {prefix}",
            "users see stale data, flush the cache prefix {prefix} at {host}",
            "{host}: flush {prefix} from the cache",
        ),
        done="Cache entries {prefix} on {host} flushed.",
        aliases=("flushCache", "cache.flush", "flush-cache"),
    ),
)

WATCH_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="get_metric",
        about="Read a metric of a host.",
        params=(
            METRIC,
            HOST,
            Param(
                name="minutes",
                draws="small",
                aliases=("last_minutes", "window_minutes"),
                also=" over the last {minutes} minutes",
            ),
        ),
        asks=(
            "Show the {metric} metric of {host}",
            "What is the {metric} usage on {host}",
            "please read {metric} of {host}",
            "{host} feels slow, get its {metric} value",
        ),
        done="{metric} of {host} is within limits.",
        aliases=("getMetric", "metric.get", "read-metric"),
    ),
    Tool(
        name="silence_alert",
        about="Silence an alert for some minutes.",
        params=(
            ALERT,
            MINUTES,
            Param(name="ticket", draws="ticket", aliases=("reference", "issue"), also=" because of {ticket}"),
        ),
        asks=(
            "Silence {alert} for {minutes} minutes",
            "For the next {minutes} minutes I do not want to hear the alert {alert}",
            "mute {alert}, {minutes} min",
            "can you keep the alert {alert} quiet for {minutes} minutes",
        ),
        done="Alert {alert} is silent for {minutes} minutes.",
        aliases=("silenceAlert", "alert.silence", "mute-alert"),
    ),
    Tool(
        name="set_threshold",
        about="Set at how many percent a metric of a host alarms.",
        params=(METRIC, HOST, Param(name="percent", draws="percent", aliases=("threshold", "limit", "value"))),
        asks=(
            "Alarm on {host} when {metric} is over {percent} percent",
            "Set the {metric} threshold of {host} to {percent}%",
            "{percent}% {metric} is the new threshold for {host}",
            "The alarm comes too late: {metric} on {host} should alarm at {percent} percent",
        ),
        done="{metric} threshold of {host} is {percent}%.",
        aliases=("setThreshold", "alert.threshold", "set-threshold"),
    ),
    Tool(
        name="create_ticket",
        about="Open a ticket about a host for a user.",
        params=(
            HOST,
            PRIORITY,
            Param(name="assignee", draws="user", aliases=("assigned_to", "owner"), also=" and assign it to {assignee}"),
        ),
        asks=(
            "Open a {priority} ticket about {host}",
            "{host} dropped off the network, create a ticket with priority {priority}",
            "Write a ticket of {priority} priority for {host}",
            "please file {host} as a ticket with {priority} priority",
        ),
        done="Ticket about {host} opened with priority {priority}.",
        aliases=("createTicket", "ticket.create", "open-ticket"),
    ),
    Tool(
        name="assign_ticket",
        about="Assign a ticket to a user.",
        params=(TICKET, USER),
        asks=(
            "Assign {ticket} to {user}",
            "{user} takes over {ticket}",
            "Let {user} have the ticket {ticket}",
            "{ticket} -> {user}, please",
            "can {ticket} go to {user}",
        ),
        done="{ticket} is assigned to {user}.",
        aliases=("assignTicket", "ticket.assign", "assign-ticket"),
    ),
    Tool(
        name="link_commit",
        about="Link a commit to a ticket.",
        params=(TICKET, Param(name="commit", draws="commit", aliases=("sha", "commit_id", "revision"))),
        asks=(
            "Link commit {commit} to {ticket}",
            "{ticket} was fixed by {commit}, link it there",
            "note the commit {commit} on ticket {ticket}",
        ),
        done="Commit {commit} linked to {ticket}.",
        aliases=("linkCommit", "ticket.link", "link-commit"),
    ),
    Tool(
        name="close_ticket",
        about="Close a ticket with a resolution.",
        params=(
            TICKET,
            Param(
                name="resolution", choices=("fixed", "duplicate", "wontfix", "invalid"), aliases=("reason", "outcome")
            ),
        ),
        asks=(
            "Close {ticket} as {resolution}",
            "{ticket} is done, close it with resolution {resolution}",
            "resolution {resolution} for {ticket}, and close it",
            "could you close the ticket {ticket}, marked {resolution}",
        ),
        done="{ticket} closed as {resolution}.",
        aliases=("closeTicket", "ticket.close", "close-ticket", "resolve_ticket"),
    ),
    Tool(
        name="set_ticket_priority",
        about="Change the priority of a ticket.",
        params=(TICKET, PRIORITY),
        asks=(
            "Set the priority of {ticket} to {priority}",
            "{ticket} is {priority} priority now",
            "make {priority} the priority of ticket {ticket}",
            "Customers ask about it, so {ticket} gets the priority {priority}",
        ),
        done="{ticket} has priority {priority}.",
        aliases=("setTicketPriority", "ticket.priority", "prioritise-ticket"),
    ),
    Tool(
        name="page_oncall",
        about="Page the person on call of a team about a ticket.",
        params=(
            Param(name="team", choices=("network", "database", "platform", "security"), aliases=("group", "squad")),
            TICKET,
        ),
        asks=(
            "Page the {team} on-call about {ticket}",
            "{ticket}: wake whoever is on call for {team}",
            "we cannot wait until morning, page {team} for {ticket}",
            "can you alert the on-call of the {team} team to {ticket}",
        ),
        done="{team} on-call paged about {ticket}.",
        aliases=("pageOncall", "oncall.page", "page-on-call"),
    ),
    Tool(
        name="annotate_dashboard",
        about="Mark a version at a time on a dashboard.",
        params=(
            Param(name="dashboard", draws="unit", aliases=("board", "dashboard_name", "panel")),
            Param(name="time", draws="time", aliases=("at", "timestamp", "when")),
            Param(name="version", draws="version", aliases=("text", "note", "release")),
        ),
        asks=(
            "Annotate dashboard {dashboard} at {time} with version {version}",
            "Mark the release of {version} at {time} on the dashboard {dashboard}",
            "{version} went live at {time}, note that on dashboard {dashboard}",
            "{dashboard} dashboard: annotation at {time}, {version}",
        ),
        done="{version} marked at {time} on {dashboard}.",
        aliases=("annotateDashboard", "dashboard.annotate", "annotate-dashboard"),
    ),
    Tool(
        name="add_uptime_check",
        about="Check an address every some seconds.",
        params=(
            Param(name="url", draws="url", aliases=("address", "endpoint", "uri")),
            Param(name="interval", draws="seconds", aliases=("interval_seconds", "every", "period")),
            Param(name="zone", draws="zone", aliases=("region", "location", "probe_zone"), also=" from zone {zone}"),
        ),
        asks=(
            "Check {url} every {interval} seconds",
            "Add an uptime check with an interval of {interval} seconds for {url}",
            "I want to know when {url} is down: check it each {interval} seconds",
            "uptime: {url}, {interval} s",
        ),
        done="{url} is checked every {interval} seconds.",
        aliases=("addUptimeCheck", "uptime.add", "uptime-check"),
    ),
    Tool(
        name="acknowledge_alert",
        about="Acknowledge an alert by its id.",
        params=(
            Param(name="alert_id", draws="uuid", aliases=("id", "alert", "alertId")),
            Param(name="user", draws="user", aliases=("username", "by"), also=" for {user}"),
        ),
        asks=(
            "Acknowledge alert {alert_id}",
            "I have seen {alert_id}, acknowledge the alert",
            "ack {alert_id}",
            "could you acknowledge the alert with id {alert_id}",
        ),
        done="Alert {alert_id} acknowledged.",
        aliases=("acknowledgeAlert", "alert.ack", "ack-alert"),
    ),
    Tool(
        name="search_logs",
        about="Search the recent logs of a service by level.",
        params=(
            SERVICE,
            Param(name="level", choices=("debug", "info", "warning", "error"), aliases=("severity", "log_level")),
            MINUTES,
        ),
        asks=(
            "Find {level} entries of {service} in the last {minutes} minutes",
            "Search {service} for log level {level}, {minutes} minutes back",
            "What did {service} log at level {level} during the past {minutes} minutes",
            "logs: {level}, {service}, last {minutes} min",
        ),
        done="Nothing new at level {level} from {service} in {minutes} minutes.",
        aliases=("searchLogs", "logs.search", "search-logs"),
    ),
    Tool(
        name="add_alert_receiver",
        about="Send the alerts of a service to an email address.",
        params=(SERVICE, EMAIL),
        asks=(
            "Send alerts of {service} to {email}",
            "{email} should get the alerts of {service}",
            "add {email} as an alert receiver for {service}",
            "alerts: {service} -> {email}",
        ),
        done="Alerts of {service} go to {email}.",
        aliases=("addAlertReceiver", "alert.receiver", "alert-receiver"),
    ),
    Tool(
        name="set_scrape_interval",
        about="Set how often metrics are read from a target.",
        params=(
            Param(name="target", draws="fqdn", aliases=("host", "endpoint", "scrape_target")),
            Param(name="port", draws="port", aliases=("metrics_port", "port_number", "exporter_port")),
            Param(name="seconds", draws="seconds", aliases=("interval", "every_seconds", "scrape_interval")),
        ),
        asks=(
            "Scrape {target} port {port} every {seconds} seconds",
            "Every {seconds} seconds is enough for scraping {target} at port {port}",
            "scrape interval {seconds} s for {target}, port {port}",
        ),
        done="{target}:{port} is scraped every {seconds} seconds.",
        aliases=("setScrapeInterval", "scrape.interval", "scrape-interval"),
    ),
    Tool(
        name="set_latency_target",
        about="Set the latency target of a service in milliseconds.",
        params=(SERVICE, Param(name="milliseconds", draws="amount", aliases=("latency_ms", "target_ms", "ms"))),
        asks=(
            "Set the latency target of {service} to {milliseconds} ms",
            "{service} should answer within {milliseconds} milliseconds, make that its target",
            "{milliseconds} ms as the latency target for {service}",
            "latency target, {service}: {milliseconds} ms",
        ),
        done="Latency target of {service} is {milliseconds} ms.",
        aliases=("setLatencyTarget", "slo.latency", "latency-target"),
    ),
)

RELEASE_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="deploy_version",
        about="Deploy a version of an application to an environment.",
        params=(
            Param(name="app", draws="deployment", aliases=("application", "service", "name")),
            Param(name="version", draws="version", aliases=("release", "tag", "app_version")),
            ENVIRONMENT,
            Param(
                name="canary",
                draws="percent",
                aliases=("canary_percent", "share"),
                also=" as a canary for {canary} percent of the traffic",
            ),
        ),
        asks=(
            "Deploy {app} {version} to {environment}",
            "Version {version} of {app} should go to {environment}",
            "{environment}: roll out {app} at {version}",
            "The tests passed, so ship {version} of {app} to {environment}",
        ),
        done="{app} {version} deployed to {environment}.",
        aliases=("deployVersion", "deploy.start", "deploy-version"),
    ),
    Tool(
        name="roll_back",
        about="Roll an application back to an earlier version.",
        params=(
            Param(name="app", draws="deployment", aliases=("application", "service", "name")),
            Param(name="version", draws="version", aliases=("to_version", "release", "target_version")),
        ),
        asks=(
            "Roll {app} back to {version}",
            "We see errors since the release, roll back {app} to version {version}",
            "back to {version} with {app}, please",
            "{app}: roll back, version {version}",
        ),
        done="{app} rolled back to {version}.",
        aliases=("rollBack", "deploy.rollback", "roll-back", "rollback_version"),
    ),
    Tool(
        name="promote_build",
        about="Promote the build of a commit to an environment.",
        params=(Param(name="commit", draws="commit", aliases=("sha", "build", "commit_id")), ENVIRONMENT),
        asks=(
            "Promote build {commit} to {environment}",
            "{environment} should get the build of {commit}",
            "the build of commit {commit} is good, promote it to {environment}",
        ),
        done="Build {commit} promoted to {environment}.",
        aliases=("promoteBuild", "build.promote", "promote-build"),
    ),
    Tool(
        name="trigger_pipeline",
        about="Run a pipeline at a commit.",
        params=(
            Param(name="pipeline", draws="job", aliases=("pipeline_name", "job", "workflow")),
            Param(name="commit", draws="commit", aliases=("sha", "ref", "revision")),
        ),
        asks=(
            "Run pipeline {pipeline} at commit {commit}",
            "Trigger {pipeline} for {commit}",
            "for commit {commit}, start the pipeline {pipeline}",
            "can you kick off {pipeline} on {commit}",
        ),
        done="Pipeline {pipeline} runs at {commit}.",
        aliases=("triggerPipeline", "pipeline.run", "run-pipeline"),
    ),
    Tool(
        name="freeze_deploys",
        about="Allow no deployment to an environment until a day.",
        params=(ENVIRONMENT, Param(name="until", draws="date", aliases=("end_date", "until_date", "date"))),
        asks=(
            "Freeze deploys to {environment} until {until}",
            "No deployments to {environment} before {until}",
            "until {until}, {environment} is frozen for deploys",
            "The audit is running, so freeze {environment} until {until}",
        ),
        done="{environment} is frozen until {until}.",
        aliases=("freezeDeploys", "deploy.freeze", "deploy-freeze"),
    ),
    Tool(
        name="set_config",
        about="Set a configuration key to a value.",
        params=(
            Param(name="key", draws="key", aliases=("config_key", "setting", "option")),
            Param(name="value", draws="number", aliases=("val", "new_value", "setting_value")),
            Param(name="host", draws="host", aliases=("hostname", "server", "node"), also=" on {host}"),
        ),
        asks=(
            "Set {key} to {value}",
            "{key} should be {value}",
            "Change the config key {key} to {value}",
            "config: {key} = {value}",
        ),
        done="{key} is {value}.",
        aliases=("setConfig", "config.set", "set-config"),
    ),
    Tool(
        name="set_feature_flag",
        about="Set a feature flag to true or false in an environment.",
        params=(
            Param(name="flag", draws="unit", aliases=("feature", "flag_name", "flagName")),
            Param(name="enabled", draws="yes", aliases=("on", "active", "state")),
            ENVIRONMENT,
        ),
        asks=(
            "Set feature flag {flag} to {enabled} in {environment}",
            "In {environment}, the flag {flag} should be {enabled}",
            "{flag}: {enabled} in {environment}",
            "can you make {enabled} the state of the flag {flag} for {environment}",
        ),
        done="Flag {flag} is {enabled} in {environment}.",
        aliases=("setFeatureFlag", "flag.set", "feature-flag"),
    ),
    Tool(
        name="renew_certificate",
        about="Renew the certificate of a domain.",
        params=(
            DOMAIN,
            Param(name="days", draws="number", aliases=("valid_days", "validity_days"), also=" for {days} days"),
        ),
        asks=(
            "Renew the certificate of {domain}",
            "The certificate for {domain} runs out soon, renew it",
            "cert renewal: {domain}",
            "could you get {domain} a renewed certificate",
        ),
        done="Certificate of {domain} renewed.",
        aliases=("renewCertificate", "cert.renew", "renew-cert"),
    ),
    Tool(
        name="issue_certificate",
        about="Issue a new certificate for a domain.",
        params=(
            DOMAIN,
            EMAIL,
            Param(
                name="key_type",
                choices=("rsa2048", "rsa4096", "ecdsa"),
                aliases=("algorithm", "keyType"),
                also=" with key type {key_type}",
            ),
        ),
        asks=(
            "Issue a certificate for {domain} with contact {email}",
            "Contact {email}: we need a new certificate for {domain}",
            "{domain} is new and needs a certificate, contact address {email}",
            "new cert: {domain}, {email}",
        ),
        done="Certificate for {domain} issued, contact {email}.",
        aliases=("issueCertificate", "cert.issue", "issue-cert"),
    ),
    Tool(
        name="rotate_key",
        about="Replace a key and keep the old one valid for some days.",
        params=(
            Param(name="key_id", draws="uuid", aliases=("key", "keyId", "id")),
            Param(name="overlap_days", draws="small", aliases=("overlap", "grace_days", "keep_days")),
        ),
        asks=(
            "Rotate key {key_id} with {overlap_days} days of overlap",
            "Rotate {key_id}, and keep the old key valid for {overlap_days} days",
            "with an overlap of {overlap_days} days, rotate the key {key_id}",
        ),
        done="Key {key_id} rotated.",
        aliases=("rotateKey", "key.rotate", "rotate-key"),
    ),
    Tool(
        name="create_api_token",
        about="Create an API token of a user.",
        params=(
            USER,
            Param(name="scope", choices=("read", "write", "deploy", "admin"), aliases=("access", "permission")),
            Param(name="expires", draws="date", aliases=("expires_on", "expiry"), also=", valid until {expires}"),
        ),
        asks=(
            "Create an API token for {user} with scope {scope}",
            "{user} needs a token with {scope} scope",
            "API token, scope {scope}, for {user}",
            "can you issue {user} an API token that allows {scope}",
        ),
        done="Token with scope {scope} created for {user}.",
        aliases=("createApiToken", "token.create", "create-token"),
    ),
    Tool(
        name="revoke_token",
        about="Make a token invalid.",
        params=(Param(name="token_id", draws="uuid", aliases=("token", "id", "tokenId")),),
        asks=(
            "Revoke token {token_id}",
            "the token {token_id} leaked, revoke it",
            "{token_id} must not be accepted any more, so revoke that token",
            "token {token_id}: revoke",
        ),
        done="Token {token_id} revoked.",
        aliases=("revokeToken", "token.revoke", "revoke-token"),
    ),
    Tool(
        name="set_quota",
        about="Set the storage quota of a user in gigabytes.",
        params=(
            USER,
            Param(name="gigabytes", draws="gigabytes", aliases=("quota_gb", "size_gb", "gb")),
            Param(name="folder", draws="folder", aliases=("path", "directory"), also=" on {folder}"),
        ),
        asks=(
            "Set the quota of {user} to {gigabytes} GB",
            "{user} gets {gigabytes} gigabytes of quota",
            "Give {gigabytes} GB of storage quota to {user}",
            "quota, {user}: {gigabytes} GB",
        ),
        done="Quota of {user} is {gigabytes} GB.",
        aliases=("setQuota", "user.quota", "set-quota"),
    ),
    Tool(
        name="invite_user",
        about="Invite a person by email with a role.",
        params=(
            EMAIL,
            Param(name="role", choices=("viewer", "editor", "operator", "owner"), aliases=("as_role", "access")),
        ),
        asks=(
            "Invite {email} as {role}",
            "{email} should join with the role {role}",
            "Send a {role} invitation to {email}",
            "{email} starts on Monday, invite this address as {role}",
        ),
        done="{email} invited as {role}.",
        aliases=("inviteUser", "user.invite", "invite-user"),
    ),
    Tool(
        name="deactivate_account",
        about="Deactivate an account from a day on.",
        params=(USER, Param(name="date", draws="date", aliases=("from_date", "effective", "since"))),
        asks=(
            "Disable {user} from {date} on",
            "{user} leaves us, disable the account on {date}",
            "as of {date}, the account {user} should be disabled",
        ),
        done="{user} is disabled from {date}.",
        aliases=("deactivateAccount", "account.deactivate", "deactivate-account"),
    ),
    Tool(
        name="set_spend_limit",
        about="Set the monthly spend limit of a project.",
        params=(
            Param(name="project", draws="namespace", aliases=("project_name", "account", "tenant")),
            Param(name="limit", draws="amount", aliases=("max_spend", "monthly_limit", "maximum")),
            Param(name="currency", choices=("EUR", "USD", "GBP"), aliases=("unit", "currency_code", "cur")),
        ),
        asks=(
            "Limit the spend of {project} to {limit} {currency}",
            "Project {project} may spend {limit} {currency} a month",
            "{limit} {currency} is the new spend limit of {project}",
            "spend limit, {project}: {limit} {currency}",
        ),
        done="{project} may spend {limit} {currency} a month.",
        aliases=("setSpendLimit", "billing.limit", "spend-limit"),
    ),
)

TOOLS: tuple[Tool, ...] = CLUSTER_TOOLS + DATA_TOOLS + WATCH_TOOLS + RELEASE_TOOLS
"""Those of training."""

HELD_OUT_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="sign_image",
        about="Sign a container image with a key.",
        params=(IMAGE, Param(name="signing_key", draws="uuid", aliases=("key_id", "signer", "key"))),
        asks=(
            "Sign {image} with key {signing_key}",
            "use the key {signing_key} to sign the image {image}",
            "the cluster takes signed images only, so sign {image} by {signing_key}",
        ),
        done="{image} signed with {signing_key}.",
        aliases=("signImage", "image.sign", "sign-image"),
    ),
    Tool(
        name="label_node",
        about="Put a label on a cluster node.",
        params=(
            NODE,
            Param(name="label", draws="unit", aliases=("label_key", "key", "name")),
            Param(name="value", draws="number", aliases=("label_value", "val", "content")),
        ),
        asks=(
            "Label {node} with {label} = {value}",
            "On node {node}, the label {label} should be {value}",
            "{label}={value} as a label for {node}",
            "can you put the label {label} with value {value} on {node}",
        ),
        done="{node} has the label {label}={value}.",
        aliases=("labelNode", "node.label", "label-node"),
    ),
    Tool(
        name="resize_claim",
        about="Set the size of a volume claim in gigabytes.",
        params=(
            Param(name="claim", draws="bucket", aliases=("claim_name", "pvc", "name")),
            Param(name="gigabytes", draws="gigabytes", aliases=("size_gb", "capacity", "gb")),
            MAYBE_NAMESPACE,
        ),
        asks=(
            "Resize the claim {claim} to {gigabytes} GB",
            "please give {gigabytes} GB to the volume claim {claim}",
            "the claim {claim} is almost full, grow it to {gigabytes} gigabytes",
        ),
        done="Claim {claim} has {gigabytes} GB.",
        aliases=("resizeClaim", "claim.resize", "resize-pvc"),
    ),
    Tool(
        name="kill_query",
        about="End a running query of a database by its process id.",
        params=(DATABASE, Param(name="process_id", draws="number", aliases=("pid", "query_id", "backend"))),
        asks=(
            "Kill query {process_id} on {database}",
            "{database}: the query with process id {process_id} blocks everything, kill it",
            "can you end the running query {process_id} in {database}",
        ),
        done="Query {process_id} on {database} ended.",
        aliases=("killQuery", "query.kill", "cancel-query"),
    ),
    Tool(
        name="reset_offset",
        about="Set a consumer group of a topic to an offset.",
        params=(
            TOPIC,
            Param(name="group", draws="unit", aliases=("consumer_group", "groupId", "consumer")),
            Param(name="offset", draws="number", aliases=("to_offset", "position", "start_at")),
        ),
        asks=(
            "Reset group {group} on {topic} to offset {offset}",
            "Let {group} read {topic} again from offset {offset}",
            "{topic}: offset {offset} for the consumer group {group}",
        ),
        done="{group} is at offset {offset} of {topic}.",
        aliases=("resetOffset", "offset.reset", "reset-offset"),
    ),
    Tool(
        name="rename_column",
        about="Give a column of a table another name.",
        params=(
            TABLE,
            Param(name="old_name", draws="column", aliases=("column", "from_name", "current")),
            Param(name="new_name", draws="column", aliases=("rename_to", "to_name", "renamed")),
        ),
        asks=(
            "Rename {old_name} in {table} to {new_name}",
            "In table {table}, {new_name} should be the new name of {old_name}",
            "{table}: column {old_name} becomes {new_name}",
        ),
        done="{old_name} of {table} is now {new_name}.",
        aliases=("renameColumn", "table.rename_column", "rename-column"),
    ),
    Tool(
        name="schedule_maintenance",
        about="Plan a maintenance window of a host.",
        params=(
            HOST,
            Param(name="date", draws="date", aliases=("day", "on_date", "start_date")),
            Param(name="time", draws="time", aliases=("start_time", "at", "startTime")),
            Param(name="hours", draws="small", aliases=("duration_hours", "length_hours"), also=", {hours} hours long"),
        ),
        asks=(
            "Schedule maintenance of {host} on {date} at {time}",
            "{date}, {time}: maintenance window for {host}",
            "We swap the power supply, plan maintenance for {host} at {time} on {date}",
        ),
        done="Maintenance of {host} is planned for {date} {time}.",
        aliases=("scheduleMaintenance", "maintenance.plan", "maintenance-window"),
    ),
    Tool(
        name="merge_tickets",
        about="Merge a ticket into another one.",
        params=(
            Param(name="ticket", draws="ticket", aliases=("source", "duplicate", "from_ticket")),
            Param(name="into", draws="ticket", aliases=("target", "into_ticket", "main_ticket")),
        ),
        asks=(
            "Merge {ticket} into {into}",
            "{into} should take in the ticket {ticket}, merge them",
            "{ticket} says the same as {into}, so merge the first into the second",
        ),
        done="{ticket} merged into {into}.",
        aliases=("mergeTickets", "ticket.merge", "merge-tickets"),
    ),
    Tool(
        name="trace_request",
        about="Follow a request through a service.",
        params=(
            Param(name="request_id", draws="uuid", aliases=("trace_id", "requestId", "id")),
            SERVICE,
        ),
        asks=(
            "Trace request {request_id} through {service}",
            "what happened to {request_id} in {service}",
            "{service}: trace {request_id}",
            "A customer complains, so follow the request {request_id} in {service}",
        ),
        done="Request {request_id} passed {service} without error.",
        aliases=("traceRequest", "trace.request", "trace-request"),
    ),
    Tool(
        name="record_cost",
        about="Book a cost of a month's invoice on a project.",
        params=(
            Param(name="project", draws="namespace", aliases=("project_name", "cost_centre", "tenant")),
            Param(name="amount", draws="amount", aliases=("cost", "sum", "total")),
            Param(name="date", draws="date", aliases=("booked_on", "day", "invoice_date")),
        ),
        asks=(
            "Book {amount} on {project} for {date}",
            "{project} had a cost of {amount} on {date}, record it",
            "cost of {date}: {amount}, project {project}",
        ),
        done="{amount} booked on {project} for {date}.",
        aliases=("recordCost", "billing.record", "record-cost"),
    ),
    Tool(
        name="pin_dependency",
        about="Pin a package of a project to a version.",
        params=(
            Param(name="package", draws="unit", aliases=("dependency", "package_name", "library")),
            Param(name="version", draws="version", aliases=("pinned_version", "release", "at_version")),
            Param(name="strict", draws="yes", aliases=("exact", "is_strict"), also=", with strict set to {strict}"),
        ),
        asks=(
            "Pin {package} to {version}",
            "{version} of {package} is the last good one, pin the dependency there",
            "dependency {package}: pin at {version}",
        ),
        done="{package} pinned to {version}.",
        aliases=("pinDependency", "dependency.pin", "pin-dependency"),
    ),
    Tool(
        name="require_mfa",
        about="Ask an account for a second factor of a kind.",
        params=(
            USER,
            Param(name="factor", choices=("totp", "hardware", "push"), aliases=("method", "second_factor", "kind")),
        ),
        asks=(
            "Require {factor} as second factor for {user}",
            "{user} should log in with a second factor of kind {factor}",
            "second factor for {user}: {factor}",
        ),
        done="{user} has to use {factor}.",
        aliases=("requireMfa", "mfa.require", "require-mfa"),
    ),
)
"""Never trained: other names and other jobs."""
