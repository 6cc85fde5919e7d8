#!/bin/sh
cat > /app/count.sh <<'SCRIPT'
#!/bin/sh
awk '{ count[$1] += $2 } END { for (item in count) print item, count[item] }' | LC_ALL=C sort
SCRIPT
