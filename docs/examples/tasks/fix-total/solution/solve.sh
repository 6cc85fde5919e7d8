#!/bin/sh
cat > /app/total.sh <<'SCRIPT'
#!/bin/sh
# Prints the sum of the numbers on standard input, one a line.
sum=0
while read -r number || [ -n "$number" ]; do
    [ -n "$number" ] || continue
    sum=$((sum + number))
done
echo "$sum"
SCRIPT
