-- Knot Resolver (release 5), as an experiment starts it: open to all clients, without validation, with an empty cache.
log_target('stderr')
cache.open({{ cache or 104857600 }}, 'lmdb://.')
{%- for at in listen %}
net.listen('{{ at.ip }}', {{ at.port }}, { kind = 'dns' })
{%- if tls %}
net.listen('{{ at.ip }}', {{ tls.port }}, { kind = 'tls' })
net.listen('{{ at.ip }}', {{ tls.https_port }}, { kind = 'doh2' })
{%- endif %}
{%- endfor %}
{%- if tls %}
net.tls("{{ tls.certificate }}", "{{ tls.key }}")
{%- endif %}
net.ipv6 = {{ "true" if has_v6 else "false" }}
-- An emulated Internet may have any address.
option('ALLOW_LOCAL', true)
{%- if root_hints %}
modules = { 'hints > iterate' }
hints.root_file("{{ root_hints }}")
{%- endif %}
trust_anchors.remove('.')
