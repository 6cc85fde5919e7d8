#!/bin/sh
tr A-Z a-z < /app/contacts.txt | LC_ALL=C sort -u > /app/tidy.txt
