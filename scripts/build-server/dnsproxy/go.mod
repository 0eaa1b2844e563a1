// The server of scripts/build-server.sh; go.sum has the hashes of all that it is built from.
module ldplayer/dnsproxy

go 1.22.6

require github.com/AdguardTeam/dnsproxy v0.73.2
