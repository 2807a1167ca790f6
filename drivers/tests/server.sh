# A server (2025-11-25) that starts in a millisecond, over stdio. With the argument `wrapped` it is a child of this script, as
# a server is one of `npx`.
if [ "$1" = wrapped ]; then
    sh "$0" "" "$2" <&0
    exit $?
fi
member() {
    value=${line#*"\"$1\":"}
    value=${value%%[,\}]*}
}
while read -r line; do
    case $line in
    *'"id":'*) member id && id=$value ;;
    *) continue ;;
    esac
    case $line in
    *'"method":"initialize"'*)
        result='"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}' ;;
    *'"method":"tools/list"'*)
        result='"tools":[{"name":"processes","inputSchema":{"type":"object"}},{"name":"wait","inputSchema":{"type":"object"}}]' ;;
    *'"name":"processes"'*)
        result="\"content\":[],\"structuredContent\":{\"server\":$$,\"parent\":$PPID}" ;;
    *'"name":"wait"'*)
        member progressToken
        echo "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":$value,\"progress\":1}}"
        continue ;;
    *'"method":"ping"'*) result= ;;
    *)
        echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no such method\"}}"
        continue ;;
    esac
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{$result}}"
done
