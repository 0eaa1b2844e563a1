-- dnsdist before another server of the experiment: all queries go to it, none is cached.
setACL({'0.0.0.0/0', '::/0'})
setSecurityPollSuffix('')
{%- if idle_timeout_ms %}
setTCPRecvTimeout({{ (idle_timeout_ms + 999) // 1000 }})
{%- endif %}
{%- for at in listen %}
{{ "setLocal" if loop.first else "addLocal" }}('{{ at.address }}')
{%- endfor %}
{%- if tls %}
{%- for ip in tls.ips %}
addTLSLocal('{{ ip }}:{{ tls.port }}', "{{ tls.certificate }}", "{{ tls.key }}")
{%- endfor %}
{%- endif %}
{%- for at in backends %}
newServer({ address = '{{ at.address }}', useClientSubnet = false, healthCheckMode = 'up' })
{%- endfor %}
