"""The Kubernetes API over the store: HTTP, one file per verb, plus discovery, tables and admission."""
