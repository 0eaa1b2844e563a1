-- Replays a capture with dnsjit in real time over one UDP socket: dnsjit replay.lua FILE HOST PORT. The filter that keeps the times is
-- the one, and with the settings, that is meant for this: `realtime`, which looks at the clock once in 128 packets.
require("dnsjit.core.objects")
local file, host, port = arg[2], arg[3], arg[4]
local input = require("dnsjit.input.mmpcap").new()
if input:open(file) ~= 0 then error("cannot open " .. file) end
local timing = require("dnsjit.filter.timing").new()
timing:realtime()
timing:producer(input)
local layer = require("dnsjit.filter.layer").new()
layer:producer(timing)
local output = require("dnsjit.output.udpcli").new()
if output:connect(host, port) ~= 0 then error("cannot connect to " .. host) end
local produce, from = layer:produce()
local receive, to = output:receive()
while true do
    local object = produce(from)
    if object == nil then break end
    if object:type() == "payload" and object:cast().len > 0 then receive(to, object) end
end
print("packets", output:packets(), "errors", output:errors())
