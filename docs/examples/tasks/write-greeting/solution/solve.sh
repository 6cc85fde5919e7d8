#!/bin/sh
echo "Hello, agentix!" > /app/greeting.txt
