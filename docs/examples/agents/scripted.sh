#!/bin/sh
# An agent without a model, for trying things out: it knows three kinds of request, gets one of them wrong, and gives
# up on the rest. The task is on standard input; what it changes in the sandbox is its answer.
#
#     agentix-run --dataset harbor --dataset-opt path=docs/examples/tasks \
#         --agent command --agent-opt script=docs/examples/agents/scripted.sh
request=$(cat)

case $request in
*greeting.txt*)
    echo "writing the greeting"
    echo "Hello, agentix!" > /app/greeting.txt
    ;;
*total.sh*)
    # Repairs one of the two bugs that it is told about, which the tests notice.
    echo "repairing the sign"
    sed -i 's/${number#-}/number/' /app/total.sh
    ;;
*contacts.txt*)
    # Forgets to sort: two of the three metrics.
    echo "tidying the contacts"
    tr A-Z a-z < /app/contacts.txt | awk '!seen[$0]++' > /app/tidy.txt
    ;;
*count.sh*changes.txt* | *changes.txt*count.sh*)
    echo "listing what to order, unsorted"
    sh /app/count.sh < /app/changes.txt | awk '$2 < 5 { print $1 }' | LC_ALL=C sort -r > /app/order.txt
    ;;
*count.sh*)
    echo "writing the counting script"
    cat > /app/count.sh <<'SCRIPT'
awk '{ count[$1] += $2 } END { for (item in count) print item, count[item] }' | LC_ALL=C sort
SCRIPT
    ;;
*)
    echo "no idea" >&2
    exit 1
    ;;
esac
