#!/bin/sh
# BIND in the place of Unbound: ldplayer knows BIND as an authoritative server, and resolvers are told alike: … -c FILE. Their threads are in the file.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
for last; do :; done
case $1 in -V) exec named -V ;; esac
exec named -g -n "$(sed -n 's/^\/\/ threads: //p' "$last")" -c "$last"
