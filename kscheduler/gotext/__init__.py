"""Go's texts: values, errors and documents as Go's standard library and YAML readers have them.

Operators compare what kscheduler prints and refuses with kube-scheduler's output byte for byte. In
flow texts of flags, configuration files, kubeconfigs and answers; out flow values, or errors in
Go's own words. Nothing here knows of Kubernetes objects.

Modules are named after Go's packages where one is mirrored: `strconv` (numbers, `%q`), `fmt`
(`%#v`), `url`, `duration` (time.Duration), `files` (os), `json_text` and `unmarshal`
(encoding/json and sigs.k8s.io/json), `yaml_text` (go-yaml), `document` (a file up to its kind and
version), `comma_list` (lists of flags). Open `unmarshal` first: it reads all that has a type.
"""
