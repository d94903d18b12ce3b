#!/usr/bin/env bash
# Several machines on one: network namespaces drum1…drumN with an address each, joined by a bridge.
# Needs root and iproute2.
#   namespaces.sh up N          10.77.0.1 … 10.77.0.N
#   namespaces.sh lose I        every process of machine I is killed
#   namespaces.sh cut I; namespaces.sh heal I      its network goes and comes back
#   namespaces.sh part I; namespaces.sh join I      machines I and I + 1 do not reach each other, and do again
#   namespaces.sh relayed I     machine I's frames end at drum-vI, and the bridge's at drum-r1, for a relay between both
#   namespaces.sh direct I      as before
#   namespaces.sh down N
set -euo pipefail
what=$1; n=$2
kill_all() { pids=$(ip netns pids "drum$1" 2>/dev/null || true); [ -z "$pids" ] || kill -9 $pids; }
case $what in
  up)   ip link add drum-bridge type bridge; ip link set drum-bridge up
        for i in $(seq "$n"); do
          ip netns add "drum$i"
          ip link add "drum-v$i" type veth peer name e0 netns "drum$i"
          ip link set "drum-v$i" master drum-bridge; ip link set "drum-v$i" up
          ip netns exec "drum$i" ip addr add "10.77.0.$i/24" dev e0
          ip netns exec "drum$i" ip link set e0 up; ip netns exec "drum$i" ip link set lo up
        done ;;
  lose) kill_all "$n" ;;
  cut)  ip link set "drum-v$n" down ;;
  part) ip netns exec "drum$n" ip route add blackhole "10.77.0.$((n + 1))/32" ;;
  join) ip netns exec "drum$n" ip route del blackhole "10.77.0.$((n + 1))/32" ;;
  heal) ip link set "drum-v$n" up; ip netns exec "drum$n" ip link set e0 up ;;
  relayed) ip link add drum-r1 type veth peer name drum-b1; ip link set drum-b1 master drum-bridge
        ip link set drum-b1 up; ip link set drum-r1 up; ip link set "drum-v$n" nomaster ;;
  direct) ip link del drum-r1; ip link set "drum-v$n" master drum-bridge ;;
  down) ip link del drum-r1 2>/dev/null || true
        for i in $(seq "$n"); do
          kill_all "$i"; ip netns del "drum$i" 2>/dev/null || true
          ip link del "drum-v$i" 2>/dev/null || true  # a process that is being killed keeps it
        done
        ip link del drum-bridge 2>/dev/null || true ;;
  *)    echo "up N | lose I | cut I | heal I | part I | join I | relayed I | direct I | down N"; exit 2 ;;
esac
