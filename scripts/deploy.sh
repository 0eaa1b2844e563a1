#!/usr/bin/env bash
# Checks what deploy/ has for many hosts: YAML by yamllint, the Kubernetes manifest by its schemas, the Ansible play by ansible-lint. Fetches the
# three from PyPI into the build folder, once.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools/deploy
mkdir -p "$place"
exec 9>"$place/.lock"
flock 9

if [ ! -e "$place/.ready" ]; then
  echo "scripts/deploy.sh: fetching yamllint, kubernetes-validate and ansible-lint from PyPI (once)" >&2
  python3 -m venv "$place"
  "$place/bin/python" -m pip install --quiet --disable-pip-version-check 'yamllint>=1.35' 'kubernetes-validate>=1.31' 'ansible-core>=2.17,<2.19' 'ansible-lint>=25' >&2
  touch "$place/.ready"
fi
export PATH=$place/bin:$PATH ANSIBLE_HOME=$place/ansible
yamllint --strict -d '{extends: default, rules: {line-length: disable, comments: {min-spaces-from-content: 1}}}' deploy
kubernetes-validate --strict deploy/kubernetes/agents.yaml
cd deploy/ansible
ansible-lint --offline --profile production --strict agents.yml
